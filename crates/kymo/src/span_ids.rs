// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recorder's spans by the ids of `tracing`: what each enter and exit asks, without a lock.
use std::sync::atomic::{AtomicU64, Ordering};

/// A bucket is a cache line. More spans than places in one are not in here: the caller knows them
/// otherwise, at a higher price.
const BUCKETS: usize = 1024;
const PLACES: usize = 4;

/// No id of `tracing`: a place that is being filled.
const TAKEN: u64 = u64::MAX;

struct Place {
    /// 0: free. Written last when the place is filled, so that who reads it reads `ours` as well.
    theirs: AtomicU64,
    ours: AtomicU64,
}

#[repr(align(64))]
struct Bucket([Place; PLACES]);

/// An id is in here from the span's creation to its close, and whoever enters it holds the span: so
/// no id is asked for whose span is another one by then.
pub(crate) struct SpanIds(Box<[Bucket]>);

impl Default for SpanIds {
    fn default() -> Self {
        let place = || Place { theirs: AtomicU64::new(0), ours: AtomicU64::new(0) };

        SpanIds((0..BUCKETS).map(|_| Bucket([place(), place(), place(), place()])).collect())
    }
}

impl SpanIds {
    fn bucket(&self, theirs: u64) -> &[Place; PLACES] {
        let hash = theirs.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;

        &self.0[hash as usize % BUCKETS].0
    }

    /// None: it is not in here.
    #[inline]
    pub(crate) fn find(&self, theirs: u64) -> Option<u64> {
        let places = self.bucket(theirs);
        let place = places.iter().find(|place| place.theirs.load(Ordering::Acquire) == theirs)?;

        Some(place.ours.load(Ordering::Relaxed))
    }

    pub(crate) fn insert(&self, theirs: u64, ours: u64) {
        let take = |place: &&Place| {
            place.theirs.compare_exchange(0, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };

        if let Some(place) = self.bucket(theirs).iter().find(take) {
            place.ours.store(ours, Ordering::Relaxed);
            place.theirs.store(theirs, Ordering::Release);
        }
    }

    pub(crate) fn remove(&self, theirs: u64) {
        let mut places = self.bucket(theirs).iter();

        if let Some(place) = places.find(|place| place.theirs.load(Ordering::Relaxed) == theirs) {
            place.theirs.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_until_it_is_removed() {
        let ids = SpanIds::default();

        ids.insert(7, 70);
        ids.insert(8, 80);
        assert_eq!((ids.find(7), ids.find(8), ids.find(9)), (Some(70), Some(80), None));
        ids.remove(7);
        assert_eq!((ids.find(7), ids.find(8)), (None, Some(80)));
        ids.insert(7, 71);
        assert_eq!(ids.find(7), Some(71));
    }

    #[test]
    fn what_finds_no_place_is_not_in_it_and_moves_nothing() {
        let ids = SpanIds::default();
        let of_one_bucket: Vec<u64> = (1..)
            .filter(|id| std::ptr::eq(ids.bucket(*id), ids.bucket(1)))
            .take(PLACES + 1)
            .collect();

        for id in &of_one_bucket {
            ids.insert(*id, id * 10);
        }
        for id in &of_one_bucket[..PLACES] {
            assert_eq!(ids.find(*id), Some(id * 10));
        }
        assert_eq!(ids.find(of_one_bucket[PLACES]), None);
        ids.remove(of_one_bucket[PLACES]);
        ids.remove(of_one_bucket[0]);
        ids.insert(of_one_bucket[PLACES], 5);
        assert_eq!(ids.find(of_one_bucket[PLACES]), Some(5));
        assert_eq!(ids.find(of_one_bucket[1]), Some(of_one_bucket[1] * 10));
    }
}

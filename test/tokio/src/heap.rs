// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that allocate known amounts, and what each of them counted of it.
use std::hint::black_box;
use std::sync::mpsc;

/// From far below the mean distance between two samples (4 KiB in truth.py) to far above it.
const SIZES: [usize; 8] = [32, 100, 250, 600, 1400, 3000, 7000, 16000];
/// Of each size so many bytes: so numbers of allocations, most of them of the smallest size, are as
/// well known as their bytes are.
const BYTES_EACH: usize = 3 << 18;

/// What a function allocated, and what of it is still there.
pub struct Known {
    name: &'static str,
    bytes: usize,
    live_bytes: usize,
    allocations: usize,
    live_allocations: usize,
}

impl Known {
    fn of(name: &'static str) -> Known {
        Known { name, bytes: 0, live_bytes: 0, allocations: 0, live_allocations: 0 }
    }

    fn made(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.allocations += 1;
    }

    fn kept(&mut self, bytes: usize) {
        self.live_bytes += bytes;
        self.live_allocations += 1;
    }

    /// `"NAME":{...}`
    pub fn json(&self) -> String {
        format!(
            "\"{}\":{{\"bytes\":{},\"live_bytes\":{},\"allocations\":{},\"live_allocations\":{}}}",
            self.name, self.bytes, self.live_bytes, self.allocations, self.live_allocations
        )
    }
}

pub const FUNCTIONS: [fn() -> Known; 6] =
    [heap_gone, heap_kept, heap_zeroed, heap_aligned, heap_grown, pass_on];

/// The sizes of all allocations, in their order, each with a number.
fn sizes() -> impl Iterator<Item = (usize, usize)> {
    SIZES.into_iter().flat_map(|size| (0..BYTES_EACH / size).map(move |i| (i, size)))
}

/// Freed at once.
#[inline(never)]
fn heap_gone() -> Known {
    let mut known = Known::of("heap_gone");
    for (_, size) in sizes() {
        let block = black_box(Vec::<u8>::with_capacity(size));
        known.made(block.capacity());
    }
    known
}

/// Every second one stays.
#[inline(never)]
fn heap_kept() -> Known {
    let mut known = Known::of("heap_kept");
    for (i, size) in sizes() {
        let block = black_box(Vec::<u8>::with_capacity(size));
        known.made(block.capacity());
        if i % 2 == 0 {
            known.kept(block.capacity());
            std::mem::forget(block);
        }
    }
    known
}

/// calloc(); every third one stays.
#[inline(never)]
fn heap_zeroed() -> Known {
    let mut known = Known::of("heap_zeroed");
    for (i, size) in sizes() {
        let block = black_box(vec![0u8; size]);
        known.made(block.capacity());
        if i % 3 == 0 {
            known.kept(block.capacity());
            std::mem::forget(block);
        }
    }
    known
}

#[repr(align(64))]
struct Line([u8; 64]);

/// Aligned beyond what malloc() gives, which is posix_memalign(); every third one stays.
#[inline(never)]
fn heap_aligned() -> Known {
    let mut known = Known::of("heap_aligned");
    for (i, size) in sizes() {
        let block = black_box(Vec::<Line>::with_capacity(size.div_ceil(64)));
        let bytes = block.capacity() * std::mem::size_of::<Line>();
        assert_eq!(block.as_ptr() as usize % 64, 0);
        known.made(bytes);
        if i % 3 == 0 {
            known.kept(bytes);
            std::mem::forget(block);
        }
    }
    known
}

/// Grows and shrinks by realloc(): each size is an allocation; the last one stays every second
/// time.
#[inline(never)]
fn heap_grown() -> Known {
    let mut known = Known::of("heap_grown");
    for (i, size) in sizes().step_by(3) {
        let mut block = black_box(Vec::<u8>::with_capacity(size));
        known.made(block.capacity());
        block.reserve_exact(size + size / 2);
        known.made(black_box(&block).capacity());
        block.shrink_to(size / 2 + 16);
        known.made(black_box(&block).capacity());
        if i % 2 == 0 {
            known.kept(block.capacity());
            std::mem::forget(block);
        }
    }
    known
}

/// Another thread frees three of four.
#[inline(never)]
fn heap_passed(to: &mpsc::SyncSender<(bool, Vec<u8>)>) -> Known {
    let mut known = Known::of("heap_passed");
    for (i, size) in sizes() {
        let block = black_box(Vec::<u8>::with_capacity(size));
        let is_kept = i % 4 == 0;
        known.made(block.capacity());
        if is_kept {
            known.kept(block.capacity());
        }
        let mut passed = to.try_send((is_kept, block));
        // Looking allocates nothing, where waiting might.
        while let Err(mpsc::TrySendError::Full(again)) = passed {
            std::thread::yield_now();
            passed = to.try_send(again);
        }
    }
    known
}

fn pass_on() -> Known {
    let (to, from) = mpsc::sync_channel::<(bool, Vec<u8>)>(256);
    let other = std::thread::spawn(move || {
        for (is_kept, block) in from {
            if is_kept {
                std::mem::forget(block);
            }
        }
    });
    let known = heap_passed(&to);
    drop(to);
    other.join().unwrap();
    known
}

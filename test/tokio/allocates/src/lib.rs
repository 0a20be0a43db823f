// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Allocates known amounts in known functions, inside polls, and says what the truth is: lines of
//! `FUNCTION BYTES LIVE_BYTES`.
use std::alloc::{alloc, dealloc, realloc, Layout};
use std::hint::black_box;
use std::sync::mpsc;
use std::time::Duration;

const KIB: usize = 1024;

/// What a function allocated, and what of it is still there.
#[derive(Default)]
struct Truth {
    bytes: usize,
    live: usize,
}

/// Many small ones that are gone at once.
#[inline(never)]
fn known_small(truth: &mut Truth) {
    for i in 0..600_000usize {
        let block = black_box(Box::new([i as u8; 64]));
        truth.bytes += block.len();
    }
}

/// What nobody frees.
#[inline(never)]
fn known_leak(truth: &mut Truth, count: usize) {
    for i in 0..count {
        let block = black_box(vec![i as u8; 16 * KIB]);
        truth.bytes += block.capacity();
        truth.live += block.capacity();
        std::mem::forget(block);
    }
}

/// Every second one is kept, the others are freed by another thread.
#[inline(never)]
fn known_passed_on(truth: &mut Truth) {
    let (send, receive) = mpsc::channel::<Vec<u8>>();
    let other = std::thread::spawn(move || {
        for (i, block) in receive.iter().enumerate() {
            if i % 2 == 0 {
                std::mem::forget(block);
            }
        }
    });
    for _ in 0..4_000 {
        let block = black_box(vec![1u8; 8 * KIB]);
        truth.bytes += block.capacity();
        send.send(block).unwrap();
    }
    truth.live += 4_000 / 2 * 8 * KIB;
    drop(send);
    other.join().unwrap();
}

/// Zeroed memory: calloc().
#[inline(never)]
fn known_zeroed(truth: &mut Truth) {
    for _ in 0..2_000 {
        let block = black_box(vec![0u8; 24 * KIB]);
        truth.bytes += block.capacity();
    }
}

/// Grows in steps, by realloc(), and each size counts.
#[inline(never)]
fn known_grown(truth: &mut Truth) {
    for _ in 0..100 {
        let mut layout = Layout::from_size_align(4 * KIB, 16).unwrap();
        // SAFETY: the layout is not empty, and each block is used by the layout it was made with.
        unsafe {
            let mut block = black_box(alloc(layout));
            truth.bytes += layout.size();
            while layout.size() < 256 * KIB {
                let larger = layout.size() * 2;
                block = black_box(realloc(block, layout, larger));
                layout = Layout::from_size_align(larger, 16).unwrap();
                truth.bytes += larger;
            }
            dealloc(block, layout);
        }
    }
}

/// Aligned beyond what malloc() gives: posix_memalign().
#[inline(never)]
fn known_aligned(truth: &mut Truth) {
    let layout = Layout::from_size_align(32 * KIB, 4096).unwrap();
    for _ in 0..1_000 {
        // SAFETY: the layout is not empty.
        unsafe {
            let block = black_box(alloc(layout));
            assert_eq!(block as usize % 4096, 0);
            dealloc(block, layout);
        }
        truth.bytes += layout.size();
    }
}

async fn run(name: &'static str, call: impl FnOnce(&mut Truth) + Send + 'static) {
    tokio::spawn(async move {
        let mut truth = Truth::default();
        call(&mut truth);
        println!("{name} {} {}", truth.bytes, truth.live);
    })
    .await
    .unwrap();
}

pub fn main() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_time().build().unwrap().block_on(async {
        // The first event of the process is behind us.
        tokio::spawn(tokio::task::yield_now()).await.unwrap();
        // On a busy machine the tables for stacks take their time, and no stack has no function.
        tokio::time::sleep(Duration::from_secs(1)).await;
        run("known_leak", |truth| known_leak(truth, 1_000)).await;
        run("known_small", known_small).await;
        run("known_passed_on", known_passed_on).await;
        tokio::time::sleep(Duration::from_millis(2_000)).await;
        run("known_zeroed", known_zeroed).await;
        run("known_grown", known_grown).await;
        run("known_aligned", known_aligned).await;
        // What grows: most of it in the second half of the program's life.
        run("known_leak", |truth| known_leak(truth, 3_000)).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    });
}

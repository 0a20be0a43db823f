// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sampled allocations: of a small program all that are large.
//!
//!     KYMO_ALLOC=1K KYMO_MODE=stream KYMO_TRACE_DIR=traces cargo run --example allocations
//!     kymo events --type AllocEvent traces
#[global_allocator]
static ALLOC: kymo::Alloc = kymo::Alloc::system();

#[kymo::main(worker_threads = 1)]
async fn main() {
    let blocks = tokio::spawn(async {
        let mut blocks: Vec<_> = (0..64).map(|_| vec![1u8; 1 << 20]).collect();

        blocks.truncate(32);
        blocks
    });
    let blocks = blocks.await.expect("a task panicked");

    println!("{}", blocks.iter().map(Vec::len).sum::<usize>());
    std::mem::forget(blocks);
}

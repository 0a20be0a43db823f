// SPDX-License-Identifier: Apache-2.0 OR MIT
use tokio::spawn;
include!("../../../shared/yield_loop.rs");

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let polls = polls_from_args();
    let (cpu_ns, wall_ns, first_ns) =
        runtime.block_on(async move { tokio::spawn(yield_loop(polls)).await.unwrap() });
    println!("{cpu_ns:.3} {wall_ns:.3} {first_ns:.3}");
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
use tokio::spawn;
include!("../../../shared/busy.rs");

fn main() {
    let polls = polls_from_args();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (cpu_ns, wall_ns) = runtime.block_on(async { spawn(busy(polls)).await.unwrap() });
    println!("{cpu_ns} {wall_ns}");
}

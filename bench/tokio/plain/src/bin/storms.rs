// SPDX-License-Identifier: Apache-2.0 OR MIT
use tokio::spawn;
include!("../../../shared/storms.rs");

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (kind, count) = storm_from_args();
    let cpu_ns = runtime.block_on(async { tokio::spawn(storm(kind, count)).await.unwrap() });
    println!("{cpu_ns:.3}");
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
use tokio::spawn;
include!("../../../shared/echo_inside.rs");

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let requests = requests_from_args();
    runtime.block_on(async move { tokio::spawn(echo_inside(requests)).await.unwrap() });
}

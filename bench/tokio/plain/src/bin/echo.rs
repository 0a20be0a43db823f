// SPDX-License-Identifier: Apache-2.0 OR MIT
use tokio::spawn;
include!("../../../shared/echo.rs");

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(echo_server(connections_from_args())).await.unwrap() });
}

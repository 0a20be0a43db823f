// SPDX-License-Identifier: Apache-2.0 OR MIT
use tokio::spawn;
include!("../../../shared/echo.rs");

fn main() {
    kymo_bench_inside::run(async { echo_server(connections_from_args()).await });
}

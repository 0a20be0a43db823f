// SPDX-License-Identifier: Apache-2.0 OR MIT
use dial9::spawn;
include!("../../../shared/echo.rs");

fn main() {
    kymo_bench_dial9::run(async { echo_server(connections_from_args()).await });
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
use dial9::spawn;
include!("../../../shared/echo_inside.rs");

fn main() {
    let requests = requests_from_args();
    kymo_bench_dial9::run(async move { echo_inside(requests).await });
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The nightly report, in a hurry: a background job that now and then computes for 60 ms.

use crate::Orders;
use std::hint::black_box;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(700);
const COMPUTE: Duration = Duration::from_millis(60);

pub async fn render(orders: Orders) {
    let mut due = tokio::time::interval(PERIOD);
    loop {
        due.tick().await;
        let quantities: Vec<u32> =
            orders.read().await.values().map(|order| order.quantity).collect();
        black_box(layout(&quantities, COMPUTE));
    }
}

/// Tries line breaks until its time is used up and keeps the best one.
fn layout(quantities: &[u32], time: Duration) -> u64 {
    let started = Instant::now();
    let mut best = u64::MAX;
    let mut width = 1u64;
    while started.elapsed() < time {
        let raggedness = quantities.iter().fold(0u64, |sum, &quantity| {
            sum.wrapping_add(u64::from(quantity).wrapping_mul(width) % 80)
        });
        best = best.min(black_box(raggedness));
        width += 1;
    }
    best
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans and events of the crate `tracing`, beside another layer.
//!
//!     KYMO_MODE=stream KYMO_TRACE_DIR=traces cargo run --bin traced
use tracing::Instrument;
use tracing_subscriber::prelude::*;

#[tracing::instrument]
async fn checkout(order: u64, express: bool) {
    tokio::task::yield_now().await;
    tracing::info!(cents = -5_i64, ratio = 0.5, "paid");
    let stock = tracing::debug_span!("stock");

    async {
        tracing::warn!(name = "late", "stock is low");
        tokio::task::yield_now().await;
    }
    .instrument(stock.clone())
    .await;

    let after = tracing::debug_span!("after");

    after.follows_from(&stock);
    after.in_scope(|| std::hint::black_box(order));
}

#[kymo::main(flavor = "current_thread")]
async fn main() {
    tracing_subscriber::registry()
        .with(kymo::tracing_layer())
        .with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr))
        .init();
    for order in 0..10 {
        tokio::spawn(checkout(order, order % 2 == 0)).await.expect("a task panicked");
    }
}

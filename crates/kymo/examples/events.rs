// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The application's own events, spans, requests, counters and labels beside the tasks.
//!
//!     KYMO_MODE=stream KYMO_TRACE_DIR=traces cargo run --example events
//!     kymo events --json traces | grep OrderPlaced
use std::collections::BTreeMap;
use std::time::Duration;

static ORDERS: kymo::Counter = kymo::Counter::new("orders");

#[derive(kymo::Event)]
struct Place {
    #[kymo(intern)]
    country: &'static str,
    zip: Option<u32>,
}

#[derive(kymo::Event)]
#[kymo(name = "OrderPlaced")]
struct Order<'a> {
    id: u64,
    #[kymo(unit = "EUR")]
    price: f64,
    took: Duration,
    note: &'a str,
    is_gift: bool,
    balance: i64,
    #[kymo(flatten)]
    to: Place,
    items: Vec<u64>,
    #[kymo(intern)]
    tags: Vec<&'static str>,
    #[kymo(intern)]
    coupon: Option<&'static str>,
    #[kymo(unit = "kg")]
    weights: BTreeMap<String, f64>,
    rows: [Vec<i8>; 2],
    #[kymo(skip)]
    _secret: u64,
}

async fn place(id: u64) {
    let _span = kymo::span!("place order");

    tokio::task::yield_now().await;
    ORDERS.add(1);
    kymo::record(&Order {
        id,
        price: id as f64 / 4.0,
        took: Duration::from_micros(id),
        note: &"näher".repeat(id as usize % 5),
        is_gift: id % 2 == 0,
        balance: -(id as i64),
        items: (0..id % 4).collect(),
        tags: vec!["new", "shop"],
        coupon: (id % 2 == 1).then_some("spring"),
        weights: BTreeMap::from([("box".into(), 1.5), ("lid".into(), 0.25)]),
        rows: [vec![-1, 1], vec![]],
        to: Place { country: "de", zip: (id % 3 == 0).then_some(10115) },
        _secret: 1,
    });
}

#[kymo::main(worker_threads = 2)]
async fn main() {
    kymo::mark("the shop opens");
    let tasks: Vec<_> = (0..100)
        .map(|id| {
            tokio::spawn(kymo::request("POST /order").run(async move {
                kymo::spawn(place(id)).await.expect("a task panicked");
            }))
        })
        .collect();

    for task in tasks {
        task.await.expect("a task panicked");
    }
    println!("{}", ORDERS.value());
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place waits for a future with an executor of its own, inside its poll.
use corpus::{Expected, Run, Victims};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::sync::oneshot;

static ASK: OnceLock<std::sync::mpsc::Sender<oneshot::Sender<()>>> = OnceLock::new();

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[inline(never)]
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

corpus::places!(|job| {
    let (sender, answer) = oneshot::channel();
    let _ = ASK.get().expect("started").send(sender);
    let _ = block_on(answer);
});

fn main() {
    let run = Run::read("nested_block_on");
    let size = run.size_us(300, 30_000);
    let (sender, questions) = std::sync::mpsc::channel::<oneshot::Sender<()>>();
    ASK.get_or_init(|| sender);
    let answer = move || {
        for question in questions {
            std::thread::sleep(Duration::max(size, Duration::from_micros(1)));
            let _ = question.send(());
        }
    };
    std::thread::Builder::new().name("answers".into()).spawn(answer).expect("a thread");
    run.serve(spawn);
    let culprit = vec![NAMES[run.hit].into(), "block_on".into()];
    let findings = &["nested_block_on", "blocking_call"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::All });
}

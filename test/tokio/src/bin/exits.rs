// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Says what it counted, then leaves: `exits return|exit|_exit|abort|SIGTERM|SIGKILL`.
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Mutex;
use std::task::{Poll, Waker};
use witness::{counted, multi_thread, say, self_wake, WAKES};

/// Two tasks that wake each other by hand, through wakers they leave in a shared place.
async fn hand_over(times: u64) {
    let place = std::sync::Arc::new(Mutex::new((0u64, None::<Waker>)));
    let tasks: Vec<_> = (0..2u64)
        .map(|side| {
            let place = place.clone();
            tokio::spawn(counted(std::future::poll_fn(move |cx| {
                let mut turn = place.lock().unwrap();
                if turn.0 < times && turn.0 % 2 != side {
                    turn.1 = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                turn.0 += 1;
                if let Some(waker) = turn.1.take() {
                    WAKES.fetch_add(1, Relaxed);
                    waker.wake();
                }
                if turn.0 > times {
                    return Poll::Ready(());
                }
                turn.1 = Some(cx.waker().clone());
                Poll::Pending
            })))
        })
        .collect();
    for task in tasks {
        task.await.unwrap()
    }
}

fn main() {
    let way = std::env::args().nth(1).unwrap_or_else(|| "return".to_string());
    let runtime = multi_thread(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..10).map(|_| tokio::spawn(counted(self_wake(100)))).collect();
        for task in tasks {
            task.await.unwrap()
        }
    });
    runtime.block_on(async { hand_over(100).await });
    say("exits", &[]);
    std::io::stdout().flush().unwrap();
    match way.as_str() {
        "return" => {}
        "exit" => std::process::exit(3),
        // SAFETY: these take no pointer and do not return to us in a torn state.
        "_exit" => unsafe { libc::_exit(4) },
        "abort" => std::process::abort(),
        "SIGTERM" => unsafe { _ = libc::raise(libc::SIGTERM) },
        "SIGKILL" => unsafe { _ = libc::raise(libc::SIGKILL) },
        other => panic!("unknown way out: {other}"),
    }
}

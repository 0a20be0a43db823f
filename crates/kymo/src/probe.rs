// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Before the first event is kept: tasks of known sizes are polled, and the interception has to see
//! each of them with an id of its own, in the order of spawning.
use crate::error::Error;
use crate::raw;

/// Some state across an await, so that the task's cell has this size.
async fn seen<const BYTES: usize>() -> (u64, u64) {
    let state = [0u8; BYTES];
    let before = raw::tokio_task();

    raw::note_copy();
    tokio::task::yield_now().await;
    std::hint::black_box(&state);
    (before, raw::tokio_task())
}

fn polls() -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().build().map_err(|why| why.to_string())?;

    runtime.block_on(async {
        let tasks =
            [tokio::spawn(seen::<1>()), tokio::spawn(seen::<300>()), tokio::spawn(seen::<5000>())];
        let mut last = 0;

        for task in tasks {
            let (before, after) = task.await.map_err(|why| why.to_string())?;

            if before <= last || before != after {
                return Err(format!("a task was seen as {before}, then as {after}, after {last}"));
            }
            last = before;
        }
        Ok(())
    })
}

/// On a thread of its own: the caller may be inside a runtime.
pub(crate) fn run() -> Result<(), Error> {
    let done = std::thread::Builder::new()
        .name("kymo-probe".into())
        .spawn(polls)
        .map_err(|why| Error::invalid(why.to_string()))?
        .join();

    match done {
        Ok(Ok(())) => Ok(()),
        Ok(Err(why)) => Err(Error::invalid(format!("the self-test failed: {why}"))),
        Err(_) => Err(Error::invalid("the self-test panicked")),
    }
}

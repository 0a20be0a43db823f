// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};

use crate::error::Error;
use crate::raw::{self, DumpOptions, Dumped};
use crate::recorder::c_string;

/// A trace of what the ring holds, to be made by [`wait`](Dump::wait), [`bytes`](Dump::bytes) or
/// `.await`. Recording continues meanwhile.
///
/// ```no_run
/// # async fn handler() -> Result<(), kymo::Error> {
/// let made = kymo::dump().reason("slow-request").last(std::time::Duration::from_secs(10)).await?;
/// println!("{}", made.path.display());
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is dumped before wait(), bytes(), reader(), request() or .await"]
#[derive(Default)]
pub struct Dump {
    options: DumpOptions,
    error: Option<Error>,
}

/// Begins the description of a dump; without more it is everything the ring holds.
pub fn dump() -> Dump {
    Dump::default()
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Dump {
    fn text(&mut self, what: &str, text: &str) -> Option<std::ffi::CString> {
        c_string(what, text).map_err(|why| self.error.get_or_insert(why).clone()).ok()
    }

    /// Part of the file's name, at most 47 bytes. Default: `request`.
    pub fn reason(mut self, reason: &str) -> Self {
        self.options.reason = self.text("reason", reason);
        self
    }

    /// A sentence for people, in the trace.
    pub fn label(mut self, label: &str) -> Self {
        self.options.label = self.text("label", label);
        self
    }

    /// Its file, if the name ends in `.trc` or `.trc.zst`, else the folder. Default: `dump_dir`.
    pub fn path(mut self, path: impl AsRef<Path>) -> Self {
        self.options.path = self.text("path", &path.as_ref().to_string_lossy());
        self
    }

    /// Only the last so long.
    pub fn last(mut self, last: Duration) -> Self {
        self.options.last_ns = ns(last);
        self
    }

    /// And so much more after the call, at most an hour.
    pub fn after(mut self, after: Duration) -> Self {
        self.options.after_ns = ns(after);
        self
    }

    /// Record nothing more once it is made, so that the ring keeps what it holds.
    pub fn and_stop(mut self) -> Self {
        self.options.is_stop = true;
        self
    }

    /// Makes it; the calling thread waits. Not inside a poll: there, `.await` it.
    ///
    /// # Errors
    /// Nothing is recorded here, or what the disk refused.
    pub fn wait(self) -> Result<Dumped, Error> {
        self.error.map_or_else(|| raw::dump(&self.options, None), Err)
    }

    /// Asks for it and returns at once; nothing says how it went but [`Status`](crate::Status).
    pub fn request(self) {
        if self.error.is_none() {
            let _ = raw::dump_then(&self.options, None, Box::new(|_| {}));
        }
    }

    /// Makes it in memory; the calling thread waits. `std::io::Cursor` makes a reader of it.
    ///
    /// # Errors
    /// As [`wait`](Dump::wait).
    pub fn bytes(self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();

        self.error.map_or_else(|| raw::dump(&self.options, Some(&mut bytes)), Err)?;
        Ok(bytes)
    }

    /// Asks for it and returns at once with its bytes as Tokio's `AsyncRead`, which ends when it is
    /// made: for the body of an answer, for example. What is not read yet is in memory; what
    /// goes wrong is the error of a read.
    ///
    /// ```no_run
    /// # async fn handler(mut socket: tokio::net::TcpStream) -> std::io::Result<()> {
    /// let mut trace = kymo::dump().last(std::time::Duration::from_secs(10)).reader();
    ///
    /// tokio::io::copy(&mut trace, &mut socket).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reader(self) -> DumpReader {
        let shared = Arc::new(Mutex::new(Bytes::default()));
        let (taking, ending) = (shared.clone(), shared.clone());
        let take = Box::new(move |more: &[u8]| {
            // The two here alone: the reader was dropped.
            if Arc::strong_count(&taking) > 2 {
                Bytes::change(&taking, |bytes| bytes.made.extend(more));
            }
        });
        let done = Box::new(move |result: Result<Dumped, Error>| {
            Bytes::change(&ending, |bytes| bytes.end = Some(result.map(drop)));
        });
        let asked = match self.error {
            Some(error) => Err(error),
            None => raw::dump_then(&self.options, Some(take), done),
        };

        if let Err(why) = asked {
            Bytes::change(&shared, |bytes| bytes.end = Some(Err(why)));
        }
        DumpReader { shared }
    }
}

/// The bytes of a dump while it is made, read inside a runtime: of [`Dump::reader`].
pub struct DumpReader {
    shared: Arc<Mutex<Bytes>>,
}

#[derive(Default)]
struct Bytes {
    made: VecDeque<u8>,
    end: Option<Result<(), Error>>,
    waker: Option<Waker>,
}

impl Bytes {
    /// Whom to wake, without the lock.
    fn change(shared: &Mutex<Bytes>, change: impl FnOnce(&mut Bytes)) {
        let mut bytes = shared.lock().unwrap_or_else(PoisonError::into_inner);

        change(&mut bytes);
        let waker = bytes.waker.take();

        drop(bytes);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl AsyncRead for DumpReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = self.shared.lock().unwrap_or_else(PoisonError::into_inner);

        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if !bytes.made.is_empty() {
            let count = bytes.made.as_slices().0.len().min(out.remaining());

            out.put_slice(&bytes.made.as_slices().0[..count]);
            bytes.made.drain(..count);
            return Poll::Ready(Ok(()));
        }
        match &bytes.end {
            Some(Ok(())) => Poll::Ready(Ok(())),
            Some(Err(why)) => Poll::Ready(Err(io::Error::other(why.clone()))),
            None => {
                bytes.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[derive(Default)]
struct Shared {
    result: Option<Result<Dumped, Error>>,
    waker: Option<Waker>,
}

/// Of [`Dump`]: ready when the recorder's thread has made it.
pub struct Dumping {
    shared: Arc<Mutex<Shared>>,
}

impl Future for Dumping {
    type Output = Result<Dumped, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);

        match shared.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl IntoFuture for Dump {
    type Output = Result<Dumped, Error>;
    type IntoFuture = Dumping;

    fn into_future(self) -> Dumping {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let theirs = shared.clone();
        let asked = match self.error {
            Some(error) => Err(error),
            None => raw::dump_then(
                &self.options,
                None,
                Box::new(move |result| {
                    let mut shared = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                    let waker = shared.waker.take();

                    shared.result = Some(result);
                    drop(shared);
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }),
            ),
        };

        if let Err(why) = asked {
            shared.lock().unwrap_or_else(PoisonError::into_inner).result = Some(Err(why));
        }
        Dumping { shared }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::future::Future;

use crate::raw::{self, RawSpan};
use crate::SpanName;

/// A stretch of work that may go over many polls and threads; it ends when it is dropped.
#[must_use = "the span ends when it is dropped"]
#[derive(Debug)]
pub struct Span(RawSpan);

impl Span {
    pub(crate) fn begin(name: u32, parent: u64) -> Span {
        Span(raw::begin_span(name, parent))
    }

    /// Unique in the process; 0: spans are not recorded at the moment.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// A span inside this one.
    pub fn child(&self, name: &'static SpanName) -> Span {
        Span::begin(name.id(), self.0.id)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        raw::end_span(&mut self.0);
    }
}

/// Begins a [`Span`] of this name, which is told to the recorder once.
///
/// ```
/// # fn price(_: u32) {}
/// let span = kymo::span!("price lookup");
/// price(7);
/// drop(span);
/// ```
#[macro_export]
macro_rules! span {
    ($name:literal) => {{
        static NAME: $crate::SpanName = $crate::SpanName::new($name);

        NAME.begin()
    }};
}

tokio::task_local! {
    static REQUEST: u64;
}

/// A request that follows the work: made by [`request`], run by [`Request::run`].
#[must_use = "nothing runs before run()"]
pub struct Request(Span);

/// Begins a request. Its span has an id of its own; spans that begin inside it, and in tasks that
/// [`spawn`](crate::spawn) starts from it, are its children.
///
/// ```
/// # async fn handler() {
/// kymo::request("GET /cart")
///     .run(async {
///         let _inside = kymo::span!("load the cart");
///     })
///     .await;
/// # }
/// ```
pub fn request(name: &str) -> Request {
    Request(Span::begin(raw::intern_name(name), request_id().unwrap_or(0)))
}

impl Request {
    /// Unique in the process; 0: spans are not recorded at the moment.
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// Runs the work of the request; it ends with it, also when it is dropped half-way.
    pub async fn run<F: Future>(self, work: F) -> F::Output {
        let span = self.0;

        REQUEST.scope(span.id(), work).await
    }
}

/// Of the request that this task works for; `None`: for none, or it is not recorded.
pub fn request_id() -> Option<u64> {
    REQUEST.try_with(|id| *id).ok().filter(|id| *id != 0)
}

/// The same work, for the request of the task that calls this.
pub(crate) async fn for_request<F: Future>(request: Option<u64>, work: F) -> F::Output {
    match request {
        Some(id) => REQUEST.scope(id, work).await,
        None => work.await,
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runtimes with a name, whose own numbers are recorded.
use std::io;
use std::ops::Deref;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::Error;
use crate::raw;
use crate::recorder::{c_string, Recorder};
use crate::source::Source;

/// Shortest and longest time between two readings of a runtime's numbers.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// What [`Recorder::attach`] and [`watch_runtime`] do beside recording tasks, which needs neither.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    name: String,
    interval: Option<Duration>,
    #[cfg(all(feature = "hooks", tokio_unstable))]
    hooks: Option<crate::TaskHooks>,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        RuntimeOptions {
            name: String::new(),
            interval: Some(Duration::from_millis(100)),
            #[cfg(all(feature = "hooks", tokio_unstable))]
            hooks: None,
        }
    }
}

impl RuntimeOptions {
    /// No name, numbers ten times a second.
    pub fn new() -> Self {
        RuntimeOptions::default()
    }

    /// In traces, at most 63 bytes. Default: none.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// Between two readings of the runtime's numbers, 10 ms to 1 s: what is beyond is taken for
    /// the nearest. Default: 100 ms. Numbers need the feature `metrics`.
    pub fn metrics_interval(mut self, interval: Duration) -> Self {
        self.interval = Some(interval.clamp(INTERVALS.0, INTERVALS.1));
        self
    }

    /// Sets the builder's callbacks of tasks: [`TaskHooks`](crate::TaskHooks) says what for.
    /// Default: none. Only [`Recorder::attach`] can.
    #[cfg(all(feature = "hooks", tokio_unstable))]
    pub fn task_hooks(mut self, hooks: crate::TaskHooks) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// No numbers.
    pub fn without_metrics(mut self) -> Self {
        self.interval = None;
        self
    }
}

/// A runtime that was built by [`Recorder::attach`]. It is used as the `Runtime` that it is.
#[derive(Debug)]
pub struct Attached {
    /// First, so that it is dropped first: it holds a handle of the runtime.
    watched: Watched,
    runtime: Runtime,
}

impl Attached {
    /// The runtime alone, for `shutdown_timeout()` and the like: its tasks are recorded as before,
    /// its numbers no more.
    pub fn detach(self) -> Runtime {
        drop(self.watched);
        self.runtime
    }
}

impl Deref for Attached {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

/// Numbers of a runtime are recorded until this is dropped, or the recorder ends.
#[must_use = "the runtime's numbers are recorded until it is dropped"]
#[derive(Debug)]
pub struct Watched {
    source: Option<Source>,
}

impl Watched {
    /// Until the recorder ends, which keeps a handle of the runtime until then.
    pub fn keep(self) {
        if let Some(source) = self.source {
            source.keep();
        }
    }
}

impl Recorder {
    /// Builds a runtime with a name, and records its own numbers: queues, steals, overflows, the
    /// blocking pool, I/O, tasks alive. Callbacks of the builder (`on_thread_start` and the like)
    /// stay as they are, unless the options have some. Tasks are recorded also of runtimes that are
    /// not attached.
    ///
    /// # Errors
    /// What the builder says. That numbers cannot be recorded is none.
    ///
    /// ```
    /// let recorder = kymo::Recorder::start(kymo::Config::builder().build()?)?;
    /// let runtime = recorder.attach(
    ///     tokio::runtime::Builder::new_multi_thread().worker_threads(1),
    ///     kymo::RuntimeOptions::new().name("main"),
    /// )?;
    ///
    /// runtime.block_on(async { /* the service */ });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attach(&self, builder: &mut Builder, options: RuntimeOptions) -> io::Result<Attached> {
        #[cfg(all(feature = "hooks", tokio_unstable))]
        if let Some(hooks) = &options.hooks {
            hooks.install(builder);
        }
        let runtime = builder.build()?;
        let watched = watch_runtime(runtime.handle(), options).unwrap_or(Watched { source: None });

        Ok(Attached { watched, runtime })
    }
}

/// The same for a runtime that another one has built, and that runs or will. With a name, a task is
/// spawned that says it.
///
/// # Errors
/// No recorder is open, or 64 sources exist.
///
/// ```
/// # let _recorder = kymo::Recorder::start(kymo::Config::builder().build()?)?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let handle = tokio::runtime::Handle::current();
///
/// kymo::watch_runtime(&handle, kymo::RuntimeOptions::new().name("main"))?.keep();
/// # Ok::<(), kymo::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn watch_runtime(runtime: &Handle, options: RuntimeOptions) -> Result<Watched, Error> {
    let name = c_string("name", &options.name)?;

    if !options.name.is_empty() && raw::gates() != 0 {
        let said = name.clone();

        // Where tasks are not intercepted there is no runtime to name.
        drop(runtime.spawn(async move { drop(raw::name_runtime(&said)) }));
    }
    let source = match options.interval {
        Some(interval) => metrics(runtime, name, interval)?,
        None => None,
    };

    Ok(Watched { source })
}

#[cfg(not(feature = "metrics"))]
fn metrics(_: &Handle, _: std::ffi::CString, _: Duration) -> Result<Option<Source>, Error> {
    Ok(None)
}

#[cfg(feature = "metrics")]
fn metrics(
    runtime: &Handle,
    name: std::ffi::CString,
    interval: Duration,
) -> Result<Option<Source>, Error> {
    let metrics = runtime.metrics();
    let sample = move || raw::record_metrics(&name, crate::metrics::read(&metrics));

    crate::source::source("tokio.metrics", interval, sample).map(Some)
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::config::{Config, Events, Mode};
use crate::error::Error;
use crate::{names, probe, raw};

/// The recorder that init() started: it lives until the process ends.
static OF_INIT: Mutex<Option<Recorder>> = Mutex::new(None);

fn of_init() -> MutexGuard<'static, Option<Recorder>> {
    OF_INIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The recorder of this process. When it is dropped, the trace is sealed.
///
/// ```no_run
/// let recorder = kymo::Recorder::start(kymo::Config::from_env().build_or_disabled())?;
/// // the service runs
/// recorder.shutdown(std::time::Duration::from_secs(5))?;
/// # Ok::<(), kymo::Error>(())
/// ```
#[must_use = "recording ends when it is dropped"]
pub struct Recorder {
    open: Option<raw::Open>,
    intercepted: Result<String, Error>,
}

/// Starts the recorder as the environment says ([`KNOBS`](crate::KNOBS)), until the process ends.
/// Never stops a program from starting: what cannot be done is said once on standard error, and the
/// program runs without it. Calling it again does nothing.
///
/// ```no_run
/// #[tokio::main]
/// async fn main() {
///     kymo::init();
///     // every task of every runtime is recorded from here on
/// }
/// ```
pub fn init() {
    init_with(Config::from_env().build_or_disabled());
}

/// The same with a configuration of the program's own.
///
/// ```no_run
/// kymo::init_with(kymo::Config::builder().service("shop").build_or_disabled());
/// ```
pub fn init_with(config: Config) {
    let mut place = of_init();

    if place.is_some() {
        return;
    }
    match Recorder::start(config) {
        Ok(recorder) => {
            if let (Some(_), Err(why)) = (&recorder.open, &recorder.intercepted) {
                eprintln!("kymo: tasks are not recorded: {why}");
            }
            *place = Some(recorder);
            raw::at_exit(seal);
        }
        Err(why) => eprintln!("kymo: nothing is recorded: {why}"),
    }
}

/// Ends what [`init`] started, and seals the trace. Without it, that happens when main returns or
/// the program calls exit(); not where it is killed: `kymo recover` makes a trace of what it left.
///
/// # Errors
/// As [`Recorder::shutdown`].
pub fn shutdown(timeout: Duration) -> Result<(), Error> {
    let recorder = of_init().take();

    recorder.map_or(Ok(()), |recorder| recorder.shutdown(timeout))
}

extern "C" fn seal() {
    // A thread that is in init() at this moment keeps the lock; nothing is waited for here.
    if let Ok(mut place) = OF_INIT.try_lock() {
        drop(place.take());
    }
}

impl Recorder {
    /// Opens the recorder and has Tokio's tasks recorded, of runtimes that exist already and of
    /// later ones.
    ///
    /// # Errors
    /// What the system refused, or a recorder that is open already. That Tokio's tables cannot be
    /// used is no error: [`Status::tokio`] and the trace say it, and [`spawn`](crate::spawn)
    /// records what it wraps.
    pub fn start(config: Config) -> Result<Recorder, Error> {
        if !config.is_enabled {
            return Ok(Recorder::disabled());
        }
        let open = raw::open(&config.options()?)?;
        let intercepted = if config.intercepts {
            intercept(config.gates)
        } else {
            Err(Error::invalid("refused by the configuration (intercept = false)"))
        };

        names::start_over();
        raw::set_wrapping(intercepted.is_err());
        describe(&intercepted);
        Ok(Recorder { open: Some(open), intercepted })
    }

    /// One that records nothing.
    pub fn disabled() -> Recorder {
        Recorder { open: None, intercepted: Err(Error::invalid("recording is disabled")) }
    }

    /// Which of Tokio's tables are recorded, or why none is.
    ///
    /// # Errors
    /// The reason.
    pub fn tokio(&self) -> Result<&str, &Error> {
        self.intercepted.as_deref()
    }

    /// What the recorder has done so far.
    pub fn status(&self) -> Status {
        Status::read(Some(self))
    }

    /// Changes between flight and stream while it runs.
    ///
    /// # Errors
    /// Nothing is open.
    pub fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        raw::set_mode(match mode {
            Mode::Flight => kymo_sys::KYMO_MODE_FLIGHT,
            Mode::Stream => kymo_sys::KYMO_MODE_STREAM,
        })
    }

    /// Adds rules that make a dump: `"poll>100ms; rss>512M for 60s"`.
    ///
    /// # Errors
    /// The rule that cannot be read, quoted.
    pub fn add_triggers(&self, rules: &str) -> Result<(), Error> {
        raw::add_triggers(&c_string("triggers", rules)?)
    }

    /// A pair for the metadata of traces, from now on; the last value of a key counts.
    ///
    /// # Errors
    /// A key that only kymo writes, or one that is too long.
    pub fn set_metadata(&self, key: &str, value: &str) -> Result<(), Error> {
        raw::set_metadata(&c_string("metadata", key)?, &c_string("metadata", value)?)
    }

    /// Seals the trace and ends recording; returns after `timeout` at the latest. Where no thread
    /// can be made to wait with, it takes as long as it takes.
    ///
    /// # Errors
    /// The first thing that the disk refused, or that it took longer: then the rest is done while
    /// the program continues.
    pub fn shutdown(mut self, timeout: Duration) -> Result<(), Error> {
        let open = Arc::new(Mutex::new(self.open.take()));
        let theirs = open.clone();
        let take = |open: &Mutex<Option<raw::Open>>| {
            let open = open.lock().unwrap_or_else(PoisonError::into_inner).take();

            open.map_or(Ok(()), close)
        };
        let (done, is_done) = std::sync::mpsc::channel();
        let closer = std::thread::Builder::new().name("kymo-close".into()).spawn(move || {
            let _ = done.send(take(&theirs));
        });

        if closer.is_err() {
            return take(&open);
        }
        is_done.recv_timeout(timeout).unwrap_or_else(|_| {
            Err(Error::new(-110, format!("the trace was not sealed within {timeout:?}")))
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            if let Err(why) = close(open) {
                eprintln!("kymo: the trace is incomplete: {why}");
            }
        }
    }
}

fn close(open: raw::Open) -> Result<(), Error> {
    raw::set_wrapping(false);
    // Where nothing was intercepted there is nothing to restore.
    let _ = raw::stop_tokio();
    open.close()
}

/// With every gate closed until the self-test has passed.
fn intercept(gates: u32) -> Result<String, Error> {
    raw::set_gates(0, u32::MAX);
    let result = raw::start_tokio().and_then(|said| match probe::run() {
        Ok(()) => Ok(said),
        Err(why) => {
            let _ = raw::stop_tokio();
            Err(why)
        }
    });
    raw::set_gates(gates, 0);
    result
}

fn describe(intercepted: &Result<String, Error>) {
    let text = match intercepted {
        Ok(said) => said.clone(),
        Err(why) => why.to_string(),
    };

    if let Ok(text) = CString::new(text) {
        let _ = raw::set_metadata(c"tokio.interception", &text);
    }
}

pub(crate) fn c_string(what: &str, value: &str) -> Result<CString, Error> {
    CString::new(value).map_err(|_| Error::invalid(format!("{what}: a zero byte in it")))
}

/// In a child that was made by fork(): recording is off there until this call.
///
/// # Errors
/// This process never had a recorder, or the system refused a ring.
pub fn reopen_after_fork() -> Result<(), Error> {
    raw::reopen()
}

/// Does not record these events until [`resume`].
///
/// ```
/// kymo::pause(kymo::Events::Wakes);
/// kymo::resume(kymo::Events::Wakes);
/// ```
pub fn pause(events: Events) {
    raw::set_gates(0, events.gates());
}

/// Records them again. Does nothing while no recorder is open.
pub fn resume(events: Events) {
    if Status::now().is_recording {
        raw::set_gates(events.gates(), 0);
    }
}

/// Whether such events are recorded at this moment.
pub fn is_recording(events: Events) -> bool {
    raw::gates() & events.gates() == events.gates()
}

/// What the recorder of this process has done so far.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// A recorder is open and records.
    pub is_recording: bool,
    /// Where events go.
    pub mode: Mode,
    /// Threads that have recorded.
    pub threads: u32,
    /// Events that were not recorded, all causes.
    pub dropped: u64,
    /// Segments on disk that are complete.
    pub segments_sealed: u64,
    /// Bytes written to segments.
    pub bytes_written: u64,
    /// The first error of writing.
    pub last_error: Option<Error>,
    /// The ring's file; empty: none yet.
    pub ring: PathBuf,
    /// Dumps that were made, failed, and wait.
    pub dumps_made: u64,
    /// Dumps that failed.
    pub dumps_failed: u64,
    /// Dumps that wait for the recorder's thread.
    pub dumps_waiting: u32,
    /// Rules that fired.
    pub triggers_fired: u64,
    /// Which of Tokio's tables are recorded, or why none is; empty where the recorder is not known
    /// to the caller.
    pub tokio: String,
}

impl Status {
    /// Of this process, whichever recorder it is.
    pub fn now() -> Status {
        Status::read(of_init().as_ref())
    }

    fn read(recorder: Option<&Recorder>) -> Status {
        let tokio = recorder.map_or(String::new(), |recorder| match recorder.tokio() {
            Ok(said) => said.to_owned(),
            Err(why) => why.to_string(),
        });
        let read = raw::status();

        Status {
            is_recording: read.as_ref().is_some_and(|read| read.is_armed != 0),
            mode: match read.as_ref().map(|read| read.mode) {
                Some(kymo_sys::KYMO_MODE_STREAM) => Mode::Stream,
                _ => Mode::Flight,
            },
            threads: read.as_ref().map_or(0, |read| read.threads),
            dropped: read.as_ref().map_or(0, |read| read.dropped_count),
            segments_sealed: read.as_ref().map_or(0, |read| read.segments_sealed),
            bytes_written: read.as_ref().map_or(0, |read| read.bytes_written),
            last_error: read
                .as_ref()
                .filter(|read| read.last_error < 0)
                .map(|read| Error::new(read.last_error, raw::error_text(read.last_error))),
            ring: read.as_ref().map_or(String::new(), raw::ring_path).into(),
            dumps_made: read.as_ref().map_or(0, |read| read.dumps_made),
            dumps_failed: read.as_ref().map_or(0, |read| read.dumps_failed),
            dumps_waiting: read.as_ref().map_or(0, |read| read.dumps_waiting),
            triggers_fired: read.as_ref().map_or(0, |read| read.triggers_fired),
            tokio,
        }
    }
}

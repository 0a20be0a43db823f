// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is recorded, where it goes, and how much of it is kept.
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use kymo_sys as sys;

use crate::error::Error;
use crate::raw;

/// Where events go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Events stay in the ring; a dump (a call, a rule, `kymo dump PID`) writes a trace of the last
    /// ones.
    #[default]
    Flight,
    /// Every event is written to rotating segments on disk.
    Stream,
}

/// Kinds of event that can be paused and resumed one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Events {
    /// Begins and ends of polls, first sight and end of tasks.
    Polls,
    /// Wakes: who woke which task, from which poll.
    Wakes,
    /// Workers that sleep and wake up.
    Parks,
    /// Which tasks were spawned in which poll.
    Spawns,
    /// Turns of the driver, notifications of workers.
    Driver,
    /// Closures on the blocking pool.
    Blocking,
    /// Labels at a moment: [`mark`](crate::mark).
    Marks,
    /// The application's own events: [`record`](crate::record).
    Custom,
    /// Spans: [`span`](crate::span), [`request`](crate::request), the tracing layer.
    Spans,
    /// Where tasks wait.
    AwaitPoints,
    /// Times off the CPU within polls, with stacks.
    OffCpu,
    /// Sampled allocations; not by default, see [`Alloc`](crate::Alloc).
    Allocations,
    /// Requests on connections, from bytes that come to bytes that go; not by default.
    Connections,
}

impl Events {
    pub(crate) fn gates(self) -> u32 {
        match self {
            Events::Polls => sys::KYMO_GATE_POLL,
            Events::Wakes => sys::KYMO_GATE_WAKE,
            Events::Parks => sys::KYMO_GATE_PARK,
            Events::Spawns => sys::KYMO_GATE_SPAWN,
            Events::Driver => sys::KYMO_GATE_DRIVER,
            Events::Blocking => sys::KYMO_GATE_BLOCKING,
            Events::Marks => sys::KYMO_GATE_MARK,
            Events::Custom => sys::KYMO_GATE_CUSTOM,
            Events::Spans => sys::KYMO_GATE_SPAN,
            Events::AwaitPoints => sys::KYMO_GATE_PLACE,
            Events::OffCpu => sys::KYMO_GATE_OFF_CPU | sys::KYMO_GATE_OFF_CPU_STACK,
            Events::Allocations => sys::KYMO_GATE_ALLOC | sys::KYMO_GATE_ALLOC_STACK,
            Events::Connections => sys::KYMO_GATE_CONN,
        }
    }
}

/// One knob: its key in a TOML file, its variable, its unit or values, its default, what it does.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Key of a TOML file.
    pub key: &'static str,
    /// Environment variable.
    pub variable: &'static str,
    /// Unit, or the values it takes.
    pub unit: &'static str,
    /// Without it.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

macro_rules! knobs {
    ($($key:literal, $variable:literal, $unit:literal, $default:literal, $help:literal;)*) => {
        /// Every knob. [`Config::from_env`] and [`Config::from_toml`] read these and no others.
        pub const KNOBS: &[Knob] = &[$(Knob {
            key: $key, variable: $variable, unit: $unit, default: $default, help: $help,
        }),*];
    };
}

knobs! {
    "enabled", "KYMO_ENABLED", "true, false", "true",
        "false: nothing is recorded, and every call of this crate does nothing";
    "mode", "KYMO_MODE", "flight, stream", "flight",
        "flight keeps the last events in memory until a dump; stream writes all of them to disk";
    "service", "KYMO_SERVICE", "name", "the executable's name",
        "names the traces and the folder below trace_dir";
    "ring_dir", "KYMO_RING_DIR", "folder", "/dev/shm/kymo-UID",
        "where the ring file is";
    "ring_bytes", "KYMO_RING_BYTES", "bytes, 128K to 4G", "32M",
        "size of the ring: how far back a dump reaches";
    "trace_dir", "KYMO_TRACE_DIR", "folder", "./kymo-traces",
        "where segments go";
    "trace_file", "KYMO_TRACE_FILE", "file.trc or file.trc.zst", "none",
        "one file in place of segments; stream mode";
    "dump_dir", "KYMO_DUMP_DIR", "folder", "trace_dir",
        "where dumps go that name no place";
    "segment_bytes", "KYMO_SEGMENT_BYTES", "bytes", "64M",
        "a segment ends at this size, before compression";
    "rotate", "KYMO_ROTATE", "duration", "60s",
        "and at this age";
    "total_bytes", "KYMO_TOTAL_BYTES", "bytes", "1G",
        "all segments of this service on disk; the oldest goes first";
    "age_min", "KYMO_AGE_MIN", "duration", "none",
        "how far back the ring should reach: a dump says which ring_bytes would do";
    "compression", "KYMO_COMPRESSION", "none, zstd", "zstd with that feature, else none",
        "of segments and dumps";
    "triggers", "KYMO_TRIGGERS", "rules, as of `kymo run --trigger`", "none",
        "rules that make a dump, such as poll>100ms; both places add to each other";
    "sample_hz", "KYMO_SAMPLE", "1 to 1000 a second of CPU time", "none",
        "stack samples of threads on the CPU";
    "sample_bytes", "KYMO_SAMPLE_BYTES", "bytes, 64K to 256M", "2M",
        "memory for stacks beside the ring";
    "switches", "KYMO_SWITCHES", "on, off", "off",
        "context switches within polls, by perf_event";
    "resources_ms", "KYMO_RESOURCES", "ms, at least 1000, or off", "1000, in flight mode 10000",
        "between readings of CPU, memory, cgroup and accept queues";
    "alloc_bytes", "KYMO_ALLOC", "bytes, 1K to 1G", "none",
        "sample one of so many allocated bytes; needs kymo::Alloc as the global allocator";
    "fatal_signals", "KYMO_FATAL_SIGNALS", "true, false", "false",
        "leave a record in the ring when a fatal signal ends the process";
    "intercept", "KYMO_INTERCEPT", "true, false", "true",
        "record every task by Tokio's own tables; false: only what kymo::spawn wraps";
    "task_names", "KYMO_TASK_NAMES", "true, false", "true",
        "read the program's symbols, for the types of tasks in traces that it writes itself";
}

/// How the recorder shall be. Made by [`Config::builder`], [`Config::from_env`] or
/// [`Config::from_toml`].
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) is_enabled: bool,
    pub(crate) intercepts: bool,
    pub(crate) mode: Mode,
    pub(crate) gates: u32,
    service: Option<String>,
    ring_dir: Option<PathBuf>,
    trace_dir: Option<PathBuf>,
    trace_file: Option<PathBuf>,
    dump_dir: Option<PathBuf>,
    triggers: Vec<String>,
    metadata: Vec<(String, String)>,
    ring_bytes: u64,
    sample_bytes: u64,
    segment_bytes: u64,
    rotate: Duration,
    total_bytes: u64,
    age_min: Duration,
    alloc_bytes: u64,
    compression: u32,
    sample_hz: u32,
    resources_ms: u32,
    switches: u32,
    is_fatal_handled: bool,
    names_tasks: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            is_enabled: true,
            intercepts: true,
            mode: Mode::Flight,
            gates: sys::KYMO_GATES_DEFAULT,
            service: None,
            ring_dir: None,
            trace_dir: None,
            trace_file: None,
            dump_dir: None,
            triggers: Vec::new(),
            metadata: Vec::new(),
            ring_bytes: 0,
            sample_bytes: 0,
            segment_bytes: 0,
            rotate: Duration::ZERO,
            total_bytes: 0,
            age_min: Duration::ZERO,
            alloc_bytes: 0,
            compression: sys::KYMO_COMPRESSION_DEFAULT,
            sample_hz: 0,
            resources_ms: 0,
            switches: 0,
            is_fatal_handled: false,
            names_tasks: true,
        }
    }
}

fn bool_of(value: &str) -> Option<bool> {
    match value {
        "true" | "on" | "yes" | "1" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

fn bytes_of(value: &str) -> Option<u64> {
    raw::read_bytes(&CString::new(value).ok()?)
}

fn duration_of(value: &str) -> Option<Duration> {
    raw::read_ns(&CString::new(value).ok()?).map(Duration::from_nanos)
}

fn c_string(what: &str, value: Option<OsString>) -> Result<Option<CString>, Error> {
    value
        .map(|value| CString::new(value.into_vec()))
        .transpose()
        .map_err(|_| Error::invalid(format!("{what}: a zero byte in it")))
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Config {
    /// All defaults; each knob is a function of the builder.
    ///
    /// ```
    /// let config = kymo::Config::builder().service("shop").ring_bytes(64 << 20).build()?;
    /// # Ok::<(), kymo::Error>(())
    /// ```
    pub fn builder() -> ConfigBuilder {
        ConfigBuilder { config: Config::default(), error: None }
    }

    /// Nothing is recorded; every call does nothing.
    pub fn disabled() -> Config {
        Config { is_enabled: false, ..Config::default() }
    }

    /// From the variables of [`KNOBS`]; with the feature `toml` first from the file that
    /// KYMO_CONFIG names.
    ///
    /// # Errors
    /// A variable that cannot be read, with its name and what it takes.
    ///
    /// ```
    /// let config = kymo::Config::from_env().build_or_disabled();
    /// ```
    pub fn from_env() -> ConfigBuilder {
        let mut builder = Config::builder();

        if let Some(path) = std::env::var_os("KYMO_CONFIG") {
            builder = builder.toml_file(PathBuf::from(path));
        }
        for knob in KNOBS {
            // The recorder itself adds the rules of KYMO_TRIGGERS.
            if knob.variable == "KYMO_TRIGGERS" {
                continue;
            }
            match std::env::var(knob.variable) {
                Ok(value) if !value.is_empty() => builder.take(knob, knob.variable, &value),
                Ok(_) | Err(std::env::VarError::NotPresent) => {}
                Err(_) => builder.fail(Error::invalid(format!("{}: not UTF-8", knob.variable))),
            }
        }
        builder
    }

    /// From the keys of [`KNOBS`] in TOML text.
    ///
    /// ```
    /// let config = kymo::Config::from_toml("mode = \"stream\"\nring_bytes = \"64M\"").build()?;
    /// # Ok::<(), kymo::Error>(())
    /// ```
    #[cfg(feature = "toml")]
    pub fn from_toml(text: &str) -> ConfigBuilder {
        Config::builder().toml(text)
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "enabled" => self.is_enabled = bool_of(value)?,
            "intercept" => self.intercepts = bool_of(value)?,
            "task_names" => self.names_tasks = bool_of(value)?,
            "fatal_signals" => self.is_fatal_handled = bool_of(value)?,
            "mode" => {
                self.mode = match value {
                    "flight" => Mode::Flight,
                    "stream" => Mode::Stream,
                    _ => return None,
                }
            }
            "service" => self.service = Some(value.to_owned()),
            "ring_dir" => self.ring_dir = Some(value.into()),
            "trace_dir" => self.trace_dir = Some(value.into()),
            "trace_file" => self.trace_file = Some(value.into()),
            "dump_dir" => self.dump_dir = Some(value.into()),
            "ring_bytes" => self.ring_bytes = bytes_of(value)?,
            "segment_bytes" => self.segment_bytes = bytes_of(value)?,
            "total_bytes" => self.total_bytes = bytes_of(value)?,
            "sample_bytes" => self.sample_bytes = bytes_of(value)?,
            "rotate" => self.rotate = duration_of(value)?,
            "age_min" => self.age_min = duration_of(value)?,
            "triggers" => self.triggers.push(value.to_owned()),
            "sample_hz" => self.sample_hz = sample_hz(value)?,
            "switches" => self.switches = switches(bool_of(value)?),
            "resources_ms" if bool_of(value) == Some(false) => self.resources_ms = u32::MAX,
            "resources_ms" => self.resources_ms = value.parse().ok()?,
            "alloc_bytes" => self.set_alloc(bytes_of(value)?),
            "compression" => {
                self.compression = match value {
                    "none" => sys::KYMO_COMPRESSION_NONE,
                    "zstd" => sys::KYMO_COMPRESSION_ZSTD,
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn set_alloc(&mut self, bytes: u64) {
        self.alloc_bytes = bytes;
        if bytes != 0 {
            self.gates |= Events::Allocations.gates();
        }
    }

    pub(crate) fn options(&self) -> Result<raw::Options, Error> {
        let path = |what, path: &Option<PathBuf>| {
            c_string(what, path.clone().map(PathBuf::into_os_string))
        };
        let string = |what, text: Option<String>| c_string(what, text.map(OsString::from));
        let mut metadata = Vec::new();
        let mut flags = sys_flag(self.mode == Mode::Stream, sys::KYMO_RECORDER_STREAM);

        flags |= sys_flag(self.is_fatal_handled, sys::KYMO_RECORDER_FATAL_SIGNALS);
        for (key, value) in &self.metadata {
            let pair = (string("metadata", Some(key.clone()))?, string(key, Some(value.clone()))?);

            if let (Some(key), Some(value)) = pair {
                metadata.push((key, value));
            }
        }
        Ok(raw::Options {
            service: string("service", self.service.clone())?,
            ring_directory: path("ring_dir", &self.ring_dir)?,
            trace_directory: path("trace_dir", &self.trace_dir)?,
            trace_file: path("trace_file", &self.trace_file)?,
            dump_directory: path("dump_dir", &self.dump_dir)?,
            triggers: string(
                "triggers",
                (!self.triggers.is_empty()).then(|| self.triggers.join("; ")),
            )?,
            metadata,
            ring_bytes: self.ring_bytes,
            sample_bytes: self.sample_bytes,
            segment_bytes_max: self.segment_bytes,
            rotate_interval_ns: ns(self.rotate),
            total_bytes_max: self.total_bytes,
            age_min_ns: ns(self.age_min),
            alloc_bytes: self.alloc_bytes,
            compression: self.compression,
            compression_level: 0,
            flags,
            gates: self.gates,
            sample_hz: self.sample_hz,
            resource_interval_ms: self.resources_ms,
            switches: self.switches,
            names_tasks: self.names_tasks,
        })
    }
}

fn sys_flag(is_set: bool, flag: u32) -> u32 {
    if is_set {
        flag
    } else {
        0
    }
}

/// 0 is how `kymo run` says none.
fn sample_hz(value: &str) -> Option<u32> {
    match value.parse().ok()? {
        0 => Some(sys::KYMO_SAMPLE_OFF),
        hz @ 1..=1000 => Some(hz),
        _ => None,
    }
}

fn switches(is_on: bool) -> u32 {
    if is_on {
        sys::KYMO_SWITCHES_ON
    } else {
        sys::KYMO_SWITCHES_OFF
    }
}

/// Builds a [`Config`]; keeps the first error until [`build`](ConfigBuilder::build).
#[derive(Clone, Debug)]
pub struct ConfigBuilder {
    config: Config,
    error: Option<Error>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty => |$config:ident, $value:ident| $set:expr;)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, $value: $type) -> Self {
            let $config = &mut self.config;

            $set;
            self
        })*
    };
}

impl ConfigBuilder {
    setters! {
        /// False: nothing is recorded. Default: true.
        enabled: bool => |config, is_enabled| config.is_enabled = is_enabled;
        /// Where events go. Default: [`Mode::Flight`].
        mode: Mode => |config, mode| config.mode = mode;
        /// Name of the service, in traces and folders. Default: the executable's name.
        service: impl Into<String> => |config, name| config.service = Some(name.into());
        /// Where the ring file is. Default: `/dev/shm/kymo-UID`.
        ring_dir: impl Into<PathBuf> => |config, path| config.ring_dir = Some(path.into());
        /// Size of the ring in bytes, 128 KiB to 4 GiB. Default: 32 MiB.
        ring_bytes: u64 => |config, bytes| config.ring_bytes = bytes;
        /// Where segments go. Default: `./kymo-traces`.
        trace_dir: impl Into<PathBuf> => |config, path| config.trace_dir = Some(path.into());
        /// One file in place of segments; its name ends in `.trc` or `.trc.zst`. Default: none.
        trace_file: impl Into<PathBuf> => |config, path| config.trace_file = Some(path.into());
        /// Where dumps go that name no place. Default: `trace_dir`.
        dump_dir: impl Into<PathBuf> => |config, path| config.dump_dir = Some(path.into());
        /// A segment ends at so many bytes before compression. Default: 64 MiB.
        segment_bytes: u64 => |config, bytes| config.segment_bytes = bytes;
        /// A segment ends at this age. Default: 60 s.
        rotate: Duration => |config, age| config.rotate = age;
        /// Bytes of all segments of this service on disk; the oldest goes first. Default: 1 GiB.
        total_bytes: u64 => |config, bytes| config.total_bytes = bytes;
        /// How far back the ring should reach: a dump says which `ring_bytes` would do.
        /// Default: not checked.
        age_min: Duration => |config, age| config.age_min = age;
        /// A rule that makes a dump: `"poll>100ms"`, as of `kymo run --trigger`. Adds to earlier
        /// ones and to KYMO_TRIGGERS. Default: none.
        trigger: impl Into<String> => |config, rule| config.triggers.push(rule.into());
        /// Stack samples for each second that a thread is on the CPU, 1 to 1,000. Default: none.
        sample_hz: u32 => |config, hz| config.sample_hz = hz;
        /// Memory for stacks beside the ring, 64 KiB to 256 MiB. Default: 2 MiB.
        sample_bytes: u64 => |config, bytes| config.sample_bytes = bytes;
        /// Context switches within polls, by perf_event. Default: false.
        switches: bool => |config, is_on| config.switches = switches(is_on);
        /// Between readings of resources, at least 1 s. Default: 1 s, in flight mode 10 s.
        resources: Duration => |config, interval| {
            config.resources_ms = u32::try_from(interval.as_millis()).unwrap_or(u32::MAX);
        };
        /// Sample one of so many allocated bytes, 1 KiB to 1 GiB. Needs [`Alloc`](crate::Alloc) as
        /// the global allocator. Default: none.
        alloc_bytes: u64 => |config, bytes| config.set_alloc(bytes);
        /// Compress by zstd, which needs the feature `zstd`. Default: true with it.
        compress: bool => |config, is_on| config.compression = if is_on {
            sys::KYMO_COMPRESSION_ZSTD
        } else {
            sys::KYMO_COMPRESSION_NONE
        };
        /// Leave a record in the ring when a fatal signal ends the process. Default: false.
        fatal_signals: bool => |config, is_on| config.is_fatal_handled = is_on;
        /// Record every task by Tokio's own tables. False: only what [`spawn`](crate::spawn) wraps.
        /// Default: true.
        intercept: bool => |config, is_on| config.intercepts = is_on;
        /// Read the program's symbols, so that traces that it writes itself name tasks by the types
        /// of their futures; 16 bytes of memory a symbol. Default: true.
        task_names: bool => |config, is_on| config.names_tasks = is_on;
        /// Record these, too.
        with: Events => |config, events| config.gates |= events.gates();
        /// Do not record these.
        without: Events => |config, events| config.gates &= !events.gates();
    }

    /// A pair for the metadata of every trace, at most 64: `("version", "1.2.3")`.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.metadata.push((key.into(), value.into()));
        self
    }

    fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    fn take(&mut self, knob: &Knob, name: &str, value: &str) {
        if self.config.set(knob.key, value).is_none() {
            self.fail(Error::invalid(format!("{name}: '{value}' is not one of: {}", knob.unit)));
        }
    }

    #[cfg(feature = "toml")]
    fn toml_file(mut self, path: PathBuf) -> Self {
        match std::fs::read_to_string(&path) {
            Ok(text) => self.toml(&text),
            Err(why) => {
                self.fail(Error::invalid(format!("{}: {why}", path.display())));
                self
            }
        }
    }

    #[cfg(not(feature = "toml"))]
    fn toml_file(mut self, path: PathBuf) -> Self {
        self.fail(Error::invalid(format!(
            "KYMO_CONFIG={}: this build reads no files; turn on the feature `toml` of kymo",
            path.display()
        )));
        self
    }

    #[cfg(feature = "toml")]
    fn toml(mut self, text: &str) -> Self {
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(why) => {
                self.fail(Error::invalid(format!("TOML: {}", why.to_string().trim_end())));
                return self;
            }
        };
        for (key, value) in &table {
            let Some(knob) = KNOBS.iter().find(|knob| knob.key == key) else {
                self.fail(Error::invalid(format!("{key}: there is no such key")));
                continue;
            };
            match value {
                toml::Value::String(value) => self.take(knob, key, value),
                toml::Value::Array(values) => {
                    for value in values {
                        self.take(knob, key, value.as_str().unwrap_or(""));
                    }
                }
                toml::Value::Integer(value) => self.take(knob, key, &value.to_string()),
                toml::Value::Boolean(value) => self.take(knob, key, &value.to_string()),
                _ => self.fail(Error::invalid(format!("{key}: it is one of: {}", knob.unit))),
            }
        }
        self
    }

    /// # Errors
    /// The first knob that cannot be as it was asked for: its name, and what it takes.
    pub fn build(self) -> Result<Config, Error> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.config),
        }
    }

    /// The same, but never stops a service from starting: an error is written to standard error,
    /// and nothing is recorded.
    pub fn build_or_disabled(self) -> Config {
        self.build().unwrap_or_else(|why| {
            eprintln!("kymo: {why}; nothing is recorded");
            Config::disabled()
        })
    }
}

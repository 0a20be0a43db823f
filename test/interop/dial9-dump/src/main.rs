// SPDX-License-Identifier: Apache-2.0 OR MIT
//! dial9-dump counts|events < RAW-TRACE
//!
//! `counts` prints one JSON object: events by name, and the error that ended the decoding.
//! `events` prints one JSON array a line: `[name, time_ns, [[field, value]...]]`, pools resolved.
//! A trace that ends in the middle of a frame gives everything before it, and exit status 0.

use dial9_trace_format::decoder::{Decoder, RawEvent, StackPool, StringPool};
use dial9_trace_format::types::FieldValueRef;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write};

fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

fn put_list<T>(out: &mut String, items: impl Iterator<Item = T>, put: impl Fn(&mut String, T)) {
    out.push('[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        put(out, item);
    }
    out.push(']');
}

fn put_number(out: &mut String, number: u64) {
    let _ = write!(out, "{number}");
}

fn put_hex(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out.push('"');
}

fn put_value(out: &mut String, value: &FieldValueRef, strings: &StringPool, stacks: &StackPool) {
    let put = |out: &mut String, item: &FieldValueRef| put_value(out, item, strings, stacks);
    match value {
        FieldValueRef::I64(number) => {
            let _ = write!(out, "{number}");
        }
        FieldValueRef::F64(number) if number.is_finite() => {
            let _ = write!(out, "{number:?}");
        }
        FieldValueRef::F64(number) => put_text(out, &number.to_string()),
        FieldValueRef::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        FieldValueRef::Varint(number) => put_number(out, *number),
        FieldValueRef::String(text) => put_text(out, text),
        FieldValueRef::Bytes(bytes) => put_hex(out, bytes),
        FieldValueRef::PooledString(id) => match strings.get(*id) {
            Some(text) => put_text(out, text),
            None => out.push_str("null"),
        },
        FieldValueRef::StackFrames(frames) => put_list(out, frames.iter(), put_number),
        FieldValueRef::PooledStackFrames(id) => match stacks.get(*id) {
            Some(frames) => put_list(out, frames.iter().copied(), put_number),
            None => out.push_str("null"),
        },
        FieldValueRef::StringMap(pairs) => put_list(out, pairs.iter(), |out, (key, value)| {
            out.push('[');
            put_text(out, &String::from_utf8_lossy(key.as_ref()));
            out.push(',');
            put_text(out, &String::from_utf8_lossy(value.as_ref()));
            out.push(']');
        }),
        FieldValueRef::List(items) => put_list(out, items.iter(), put),
        FieldValueRef::Map(pairs) => put_list(out, pairs.iter(), |out, (key, value)| {
            out.push('[');
            put(out, key);
            out.push(',');
            put(out, value);
            out.push(']');
        }),
        FieldValueRef::None => out.push_str("null"),
        _ => out.push_str("\"a type that this program does not know\""),
    }
}

fn put_event(out: &mut String, event: &RawEvent) {
    out.push('[');
    put_text(out, event.name);
    let _ = write!(out, ",{},", event.timestamp_ns);
    put_list(out, event.field_names().zip(event.fields), |out, (name, value)| {
        out.push('[');
        put_text(out, name);
        out.push(',');
        put_value(out, value, event.string_pool, event.stack_pool);
        out.push(']');
    });
    out.push_str("]\n");
}

fn counts(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    let mut decoder = Decoder::new(bytes).ok_or_else(not_a_trace)?;
    let (mut first_ns, mut last_ns) = (u64::MAX, 0);
    let outcome = decoder.for_each_event(|event| {
        match names.get_mut(event.name) {
            Some(count) => *count += 1,
            None => {
                names.insert(event.name.to_string(), 1);
            }
        }
        first_ns = first_ns.min(event.timestamp_ns);
        last_ns = last_ns.max(event.timestamp_ns);
    });
    let mut text = String::from("{\"counts\":{");
    for (index, (name, count)) in names.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        put_text(&mut text, name);
        let _ = write!(text, ":{count}");
    }
    let total: u64 = names.values().sum();
    let _ = write!(text, "}},\"events\":{total},\"first_ns\":{first_ns},\"last_ns\":{last_ns}");
    text.push_str(",\"error\":");
    match outcome {
        Ok(()) => text.push_str("null"),
        Err(error) => put_text(&mut text, &format!("byte {}: {}", error.pos, error.message)),
    }
    text.push_str("}\n");
    out.write_all(text.as_bytes())
}

fn events(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    let mut decoder = Decoder::new(bytes).ok_or_else(not_a_trace)?;
    let mut text = String::new();
    let mut written = Ok(());
    // An error of the decoder is what a torn tail looks like; `counts` reports it.
    let _ = decoder.try_for_each_event(|event| {
        text.clear();
        put_event(&mut text, &event);
        out.write_all(text.as_bytes()).map_err(|error| written = Err(error))
    });
    written
}

fn not_a_trace() -> io::Error {
    io::Error::other("standard input does not begin like a TRC version 1 stream")
}

fn run() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next();
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match (mode.as_deref(), arguments.next()) {
        (Some("counts"), None) => counts(&bytes, &mut out)?,
        (Some("events"), None) => events(&bytes, &mut out)?,
        _ => return Err(io::Error::other("usage: dial9-dump counts|events < RAW-TRACE")),
    }
    out.flush()
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dial9-dump: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

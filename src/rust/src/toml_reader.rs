// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a TOML document and hands out its values one by one, with the lines they stand on.
//! The C side is `toml_reader.h`.

use std::ffi::{c_char, c_void};
use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// One value: its path ("events.poll.threshold", "trigger[1].rule"), its text as written without
/// quotes, what kind of value it is, and its line, from 1. Returns non-zero to stop.
type Emit = unsafe extern "C" fn(
    ctx: *mut c_void,
    path: *const c_char,
    path_bytes: usize,
    text: *const c_char,
    text_bytes: usize,
    kind: u32,
    line: u32,
) -> i32;

const STRING: u32 = 1;
const INTEGER: u32 = 2;
const FLOAT: u32 = 3;
const BOOLEAN: u32 = 4;
const DATETIME: u32 = 5;
const EMPTY: u32 = 6;

const STOPPED: i32 = 1;
const NOT_TOML: i32 = -1;

struct Walk<'a> {
    document: &'a str,
    emit: Emit,
    ctx: *mut c_void,
}

fn line_of(document: &str, at: usize) -> u32 {
    let at = at.min(document.len());
    1 + document.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() as u32
}

impl Walk<'_> {
    fn tell(&self, path: &str, text: &str, kind: u32, at: usize) -> i32 {
        // SAFETY: the pointers are valid for their lengths during the call, which is all that
        // the callback is promised; ctx is what the caller gave us for it.
        unsafe {
            (self.emit)(
                self.ctx,
                path.as_ptr().cast(),
                path.len(),
                text.as_ptr().cast(),
                text.len(),
                kind,
                line_of(self.document, at),
            )
        }
    }

    fn table(&self, path: &str, table: &DeTable<'_>, at: usize) -> i32 {
        if table.is_empty() {
            return self.tell(path, "{}", EMPTY, at);
        }
        for (key, value) in table.iter() {
            let name: &str = key.get_ref();
            let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let result = self.value(&below, value, key.span().start);
            if result != 0 {
                return result;
            }
        }
        0
    }

    fn value(&self, path: &str, value: &Spanned<DeValue<'_>>, at: usize) -> i32 {
        match value.get_ref() {
            DeValue::String(text) => self.tell(path, text, STRING, at),
            DeValue::Integer(number) => {
                if number.radix() == 10 {
                    return self.tell(path, number.as_str(), INTEGER, at);
                }
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(plain) => self.tell(path, &plain.to_string(), INTEGER, at),
                    Err(_) => self.tell(path, number.as_str(), EMPTY, at),
                }
            }
            DeValue::Float(number) => self.tell(path, number.as_str(), FLOAT, at),
            DeValue::Boolean(flag) => {
                self.tell(path, if *flag { "true" } else { "false" }, BOOLEAN, at)
            }
            DeValue::Datetime(moment) => self.tell(path, &moment.to_string(), DATETIME, at),
            DeValue::Array(items) => {
                if items.is_empty() {
                    return self.tell(path, "[]", EMPTY, at);
                }
                for (index, item) in items.iter().enumerate() {
                    let below = format!("{path}[{index}]");
                    let result = self.value(&below, item, item.span().start);
                    if result != 0 {
                        return result;
                    }
                }
                0
            }
            DeValue::Table(table) => self.table(path, table, at),
        }
    }
}

/// Puts a text into the caller's buffer, cut at a whole character, with a NUL behind it.
fn put_text(out: *mut c_char, capacity: usize, text: &str) {
    if capacity == 0 {
        return;
    }
    let mut bytes = text.len().min(capacity - 1);
    while !text.is_char_boundary(bytes) {
        bytes -= 1;
    }
    // SAFETY: `out` has room for `capacity` bytes by the contract of ky_toml_parse, and
    // bytes + 1 <= capacity.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), out.cast::<u8>(), bytes);
        *out.cast::<u8>().add(bytes) = 0;
    }
}

/// Returns 0, 1 when `emit` stopped it, -1 with a sentence and a line when it is not TOML.
///
/// # Safety
/// `document` has `document_bytes` bytes, `error` room for `error_bytes`, `error_line` is valid.
#[no_mangle]
pub unsafe extern "C" fn ky_toml_parse(
    document: *const u8,
    document_bytes: usize,
    emit: Emit,
    ctx: *mut c_void,
    error: *mut c_char,
    error_bytes: usize,
    error_line: *mut u32,
) -> i32 {
    // SAFETY: by the contract above.
    let bytes = unsafe { std::slice::from_raw_parts(document, document_bytes) };
    let (sentence, at) = match std::str::from_utf8(bytes) {
        Err(wrong) => {
            let valid = String::from_utf8_lossy(&bytes[..wrong.valid_up_to()]).into_owned();
            // SAFETY: by the contract above.
            unsafe { *error_line = line_of(&valid, valid.len()) };
            put_text(error, error_bytes, "not UTF-8");
            return NOT_TOML;
        }
        Ok(text) => match DeTable::parse(text) {
            Ok(root) => {
                let walk = Walk { document: text, emit, ctx };
                let result = walk.table("", root.get_ref(), 0);
                return if result != 0 { STOPPED } else { 0 };
            }
            Err(wrong) => {
                (wrong.message().to_owned(), line_of(text, wrong.span().map_or(0, |s| s.start)))
            }
        },
    };
    // SAFETY: by the contract above.
    unsafe { *error_line = at };
    put_text(error, error_bytes, &sentence);
    NOT_TOML
}

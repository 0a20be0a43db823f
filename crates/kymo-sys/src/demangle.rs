// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `csrc/symbol/task_names.c` calls to read symbols.
use core::fmt::{self, Write};
use core::slice;
use core::str;

struct Bounded<'a> {
    out: &'a mut [u8],
    used: usize,
}

impl Write for Bounded<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = self.out.len() - self.used;
        let count = part.len().min(room);

        self.out[self.used..self.used + count].copy_from_slice(&part.as_bytes()[..count]);
        self.used += count;
        if count < part.len() {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

/// Writes the symbol as people write it, without its hash; one that is not Rust's as it is. Returns
/// how many bytes; what does not fit is cut.
fn demangle(symbol: &[u8], out: &mut [u8]) -> usize {
    let mut out = Bounded { out, used: 0 };

    match str::from_utf8(symbol).ok().map(|text| (text, rustc_demangle::try_demangle(text))) {
        Some((_, Ok(name))) => drop(write!(out, "{name:#}")),
        Some((text, Err(_))) => drop(out.write_str(text)),
        None => {}
    }
    out.used
}

/// `ky_blaze_demangle()` of csrc/symbol/blaze.h.
///
/// # Safety
/// `symbol` has `symbol_bytes` bytes, `out` room for `capacity`.
#[no_mangle]
unsafe extern "C" fn ky_blaze_demangle(
    symbol: *const u8,
    symbol_bytes: usize,
    out: *mut u8,
    capacity: usize,
) -> usize {
    // SAFETY: by the contract above; the two do not overlap.
    let (symbol, out) = unsafe {
        (slice::from_raw_parts(symbol, symbol_bytes), slice::from_raw_parts_mut(out, capacity))
    };

    demangle(symbol, out)
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names, source lines and inline frames of addresses in one ELF file.
//! The C side is `symbol/blaze.h`.

use std::ffi::{c_char, OsStr};
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

use crate::modules;

const UNREADABLE: i32 = -1;
const PANICKED: i32 = -2;

/// Longer names and paths of rows are cut: a symbol of a hostile file may unfold without end.
const TEXT_BYTES_MAX: usize = 4096;
const DEPTH_MAX: usize = 256;

pub struct Blaze {
    symbolizer: Symbolizer,
    source: Source<'static>,
    /// The symbol table alone, where debug information has names without their modules.
    table: Source<'static>,
}

/// `struct ky_blaze_row`.
#[repr(C)]
pub struct Row {
    name: *const c_char,
    name_bytes: usize,
    file: *const c_char,
    file_bytes: usize,
    start: u64,
    code_bytes: u64,
    line: u32,
    depth: u32,
}

type RowFn = unsafe extern "C" fn(ctx: *mut std::ffi::c_void, row: *const Row);

/// Text that refuses to grow beyond a limit.
struct Bounded {
    text: String,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let mut room = self.bytes_max - self.text.len();
        if part.len() <= room {
            self.text.push_str(part);
            return Ok(());
        }
        while !part.is_char_boundary(room) {
            room -= 1;
        }
        self.text.push_str(&part[..room]);
        Err(fmt::Error)
    }
}

/// The name as people write it, without the hash; what is not mangled stays as it is.
fn demangle(symbol: &str, bytes_max: usize) -> String {
    let mut out = Bounded { text: String::new(), bytes_max };
    if symbol.len() > bytes_max {
        let _ = out.write_str(symbol);
    } else if let Ok(rust) = rustc_demangle::try_demangle(symbol) {
        let _ = write!(out, "{rust:#}");
    } else if symbol.starts_with("_Z") || symbol.starts_with("__Z") {
        let options = cpp_demangle::ParseOptions::default().recursion_limit(96);
        let parsed =
            cpp_demangle::Symbol::new_with_options(symbol.as_bytes(), &options).map(|name| {
                let how = cpp_demangle::DemangleOptions::new().recursion_limit(96);
                let _ = name.structured_demangle(&mut CppSink(&mut out), &how);
            });
        if parsed.is_err() || out.text.is_empty() {
            out.text.clear();
            let _ = out.write_str(symbol);
        }
    } else {
        let _ = out.write_str(symbol);
    }
    out.text
}

struct CppSink<'a>(&'a mut Bounded);

impl cpp_demangle::DemangleWrite for CppSink<'_> {
    fn write_string(&mut self, part: &str) -> fmt::Result {
        self.0.write_str(part)
    }
}

fn path_of(info: Option<&CodeInfo<'_>>) -> (Vec<u8>, u32) {
    let Some(info) = info else { return (Vec::new(), 0) };
    let mut path = info.to_path().as_os_str().as_bytes().to_vec();
    path.truncate(TEXT_BYTES_MAX);
    (path, info.line.unwrap_or(0))
}

struct Teller {
    tell: RowFn,
    ctx: *mut std::ffi::c_void,
    count: i32,
}

impl Teller {
    fn row(&mut self, name: &str, info: Option<&CodeInfo<'_>>, start: u64, code_bytes: u64) {
        let (file, line) = path_of(info);
        let name = modules::with_module(demangle(name, TEXT_BYTES_MAX), &file, TEXT_BYTES_MAX);
        let row = Row {
            name: name.as_ptr().cast(),
            name_bytes: name.len(),
            file: file.as_ptr().cast(),
            file_bytes: file.len(),
            start,
            code_bytes,
            line,
            depth: self.count as u32,
        };
        // SAFETY: every pointer is valid for its length during the call, which is all that the
        // callback is promised; ctx is what the caller gave us for it.
        unsafe { (self.tell)(self.ctx, &row) };
        self.count += 1;
    }

    fn symbol(&mut self, symbol: &Sym<'_>, table: Option<&Sym<'_>>) {
        let bytes = symbol.size.unwrap_or(0) as u64;
        let name = table.map_or(&symbol.name, |of_table| &of_table.name);
        self.row(name, symbol.code_info.as_deref(), symbol.addr, bytes);
        for inlined in symbol.inlined.iter().take(DEPTH_MAX) {
            self.row(&inlined.name, inlined.code_info.as_ref(), symbol.addr, bytes);
        }
    }
}

impl Blaze {
    /// The symbol at the address, where the name of the debug information is that of a Rust
    /// function without its module.
    fn of_table(&self, symbol: &Sym<'_>, address: u64) -> Option<Sym<'_>> {
        let (file, _) = path_of(symbol.code_info.as_deref());
        if !file.ends_with(b".rs")
            || symbol.name.starts_with('_')
            || modules::has_module(&symbol.name)
        {
            return None;
        }
        match self.symbolizer.symbolize_single(&self.table, Input::VirtOffset(address)) {
            Ok(Symbolized::Sym(found)) if !found.name.is_empty() => Some(found),
            _ => None,
        }
    }
}

/// Opens nothing yet: the first look-up does. With `debug` 0 the symbol table alone is read.
///
/// # Safety
/// `path` has `path_bytes` bytes.
#[no_mangle]
pub unsafe extern "C" fn ky_blaze_open(
    path: *const u8,
    path_bytes: usize,
    debug: u32,
) -> *mut Blaze {
    // SAFETY: by the contract above.
    let path =
        PathBuf::from(OsStr::from_bytes(unsafe { std::slice::from_raw_parts(path, path_bytes) }));
    let made = panic::catch_unwind(|| {
        // The caller looks for debug files itself, by build id.
        let symbolizer = Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_code_info(debug != 0)
            .enable_inlined_fns(debug != 0)
            .enable_demangling(false)
            .set_debug_dirs(Some(Vec::<PathBuf>::new()))
            .build();
        let (mut elf, mut plain) = (Elf::new(&path), Elf::new(&path));
        elf.debug_syms = debug != 0;
        plain.debug_syms = false;
        let (source, table) = (Source::Elf(elf), Source::Elf(plain));
        Box::into_raw(Box::new(Blaze { symbolizer, source, table }))
    });
    made.unwrap_or(std::ptr::null_mut())
}

/// # Safety
/// `blaze` comes from `ky_blaze_open` and is not used afterwards, or is NULL.
#[no_mangle]
pub unsafe extern "C" fn ky_blaze_close(blaze: *mut Blaze) {
    if !blaze.is_null() {
        // SAFETY: by the contract above.
        let blaze = unsafe { Box::from_raw(blaze) };
        let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(blaze)));
    }
}

/// Tells the function at a virtual address and those inlined there, outermost first. Returns how
/// many, 0 when the file does not say.
///
/// # Safety
/// `blaze` comes from `ky_blaze_open`; `tell` does not unwind.
#[no_mangle]
pub unsafe extern "C" fn ky_blaze_find(
    blaze: *const Blaze,
    address: u64,
    tell: RowFn,
    ctx: *mut std::ffi::c_void,
) -> i32 {
    // SAFETY: by the contract above.
    let blaze = unsafe { &*blaze };
    let found = panic::catch_unwind(AssertUnwindSafe(|| {
        let one = blaze.symbolizer.symbolize_single(&blaze.source, Input::VirtOffset(address));
        match one {
            Ok(Symbolized::Sym(symbol)) if !symbol.name.is_empty() => {
                let mut teller = Teller { tell, ctx, count: 0 };
                let table = blaze.of_table(&symbol, address);
                teller.symbol(&symbol, table.as_ref());
                teller.count
            }
            Ok(_) => 0,
            Err(_) => UNREADABLE,
        }
    }));
    found.unwrap_or(PANICKED)
}

/// What a panic would print stays unsaid: the caller says what it means for the names.
#[no_mangle]
pub extern "C" fn ky_blaze_quiet() {
    panic::set_hook(Box::new(|_| {}));
}

/// Demangles one symbol. Returns bytes written, without a NUL; what does not fit is cut.
///
/// # Safety
/// `symbol` has `symbol_bytes` bytes, `out` room for `capacity`.
#[no_mangle]
pub unsafe extern "C" fn ky_blaze_demangle(
    symbol: *const u8,
    symbol_bytes: usize,
    out: *mut u8,
    capacity: usize,
) -> usize {
    // SAFETY: by the contract above.
    let bytes = unsafe { std::slice::from_raw_parts(symbol, symbol_bytes) };
    let text = panic::catch_unwind(|| demangle(&String::from_utf8_lossy(bytes), capacity));
    let Ok(text) = text else { return 0 };
    // SAFETY: demangle() returns at most `capacity` bytes.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), out, text.len()) };
    text.len()
}

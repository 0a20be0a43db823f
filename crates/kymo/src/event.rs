// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of the application: a type with named fields, told to the recorder once.
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kymo_sys as sys;

use crate::names::Cached;
use crate::raw;

/// A field of an event's type.
#[derive(Clone, Debug)]
pub struct Field {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) unit: &'static str,
}

impl Field {
    /// unit "": that of the type, or none.
    pub fn of<V: Value>(prefix: &str, name: &str, unit: &'static str) -> Field {
        let unit = if unit.is_empty() { V::UNIT } else { unit };

        Field { name: format!("{prefix}{name}"), kind: V::KIND, unit }
    }
}

/// What can be a field of an event.
pub trait Value {
    #[doc(hidden)]
    const KIND: u32;
    #[doc(hidden)]
    const UNIT: &'static str = "";
    #[doc(hidden)]
    fn put(&self, out: &mut Values);
}

/// The values of one event while it is written.
pub struct Values {
    words: [u64; sys::KYMO_CUSTOM_WORDS_MAX],
    count: usize,
    is_too_long: bool,
}

impl Values {
    pub(crate) fn new(id: u32) -> Values {
        let mut values =
            Values { words: [0; sys::KYMO_CUSTOM_WORDS_MAX], count: 0, is_too_long: false };

        values.word(u64::from(id));
        values
    }

    pub(crate) fn word(&mut self, word: u64) {
        match self.words.get_mut(self.count) {
            Some(place) => {
                *place = word;
                self.count += 1;
            }
            None => self.is_too_long = true,
        }
    }

    /// One word is none that a type with fields can be: what is too long is counted as lost.
    pub(crate) fn write(&self) {
        raw::write_event(&self.words[..if self.is_too_long { 1 } else { self.count }]);
    }

    /// What does not fit makes the event one that is lost; the rest of it is not looked at.
    fn list<V: Value>(&mut self, kind: u32, count: usize, items: impl Iterator<Item = V>) {
        self.word(u64::from(kind) << 32 | count as u64 & 0xffff_ffff);
        for item in items {
            if self.is_too_long {
                return;
            }
            item.put(self);
        }
    }

    fn map<K: Value, V: Value>(
        &mut self,
        (key, value): (u32, u32),
        count: usize,
        pairs: impl Iterator<Item = (K, V)>,
    ) {
        self.word(u64::from(value) << 40 | u64::from(key) << 32 | count as u64 & 0xffff_ffff);
        for (key, value) in pairs {
            if self.is_too_long {
                return;
            }
            key.put(self);
            value.put(self);
        }
    }

    /// At most 512 bytes, cut between characters.
    pub(crate) fn text(&mut self, text: &str) {
        let mut bytes = text.len().min(sys::KYMO_CUSTOM_STRING_BYTES_MAX);

        while !text.is_char_boundary(bytes) {
            bytes -= 1;
        }
        self.word(bytes as u64);
        for chunk in text.as_bytes()[..bytes].chunks(8) {
            let mut word = [0; 8];

            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_ne_bytes(word));
        }
    }
}

/// Recorded by [`record`]; `#[derive(kymo::Event)]` writes it.
pub trait Event {
    /// In the trace.
    fn name() -> &'static str;
    /// Adds the fields in their order, each with this in front of its name.
    fn fields(prefix: &str, out: &mut Vec<Field>);
    /// Adds their values in the same order.
    fn put(&self, out: &mut Values);
    #[doc(hidden)]
    fn id() -> &'static Cached;
}

/// Records an event: with its time, its thread, and the task that the thread polls. Costs a load
/// and a branch while nothing is recorded. A text is cut at 512 bytes; an event of more than 950
/// bytes in all is left out and counted as lost.
///
/// ```
/// #[derive(kymo::Event)]
/// struct CacheMiss {
///     key: u64,
/// }
///
/// kymo::record(&CacheMiss { key: 7 });
/// ```
pub fn record<E: Event>(event: &E) {
    if raw::gates() & sys::KYMO_GATE_CUSTOM == 0 {
        return;
    }
    let id = E::id().get(|| {
        let mut fields = Vec::new();

        E::fields("", &mut fields);
        raw::register_event(E::name(), &fields)
    });

    if id == 0 {
        return;
    }
    let mut values = Values::new(id);

    event.put(&mut values);
    values.write();
}

macro_rules! values {
    ($($type:ty, $kind:expr, |$value:ident| $word:expr;)*) => {
        $(impl Value for $type {
            const KIND: u32 = $kind;

            fn put(&self, out: &mut Values) {
                let $value = *self;

                out.word($word);
            }
        })*
    };
}

values! {
    u8, sys::KYMO_CUSTOM_U64, |value| u64::from(value);
    u16, sys::KYMO_CUSTOM_U64, |value| u64::from(value);
    u32, sys::KYMO_CUSTOM_U64, |value| u64::from(value);
    u64, sys::KYMO_CUSTOM_U64, |value| value;
    usize, sys::KYMO_CUSTOM_U64, |value| value as u64;
    i8, sys::KYMO_CUSTOM_I64, |value| i64::from(value) as u64;
    i16, sys::KYMO_CUSTOM_I64, |value| i64::from(value) as u64;
    i32, sys::KYMO_CUSTOM_I64, |value| i64::from(value) as u64;
    i64, sys::KYMO_CUSTOM_I64, |value| value as u64;
    isize, sys::KYMO_CUSTOM_I64, |value| value as u64;
    f32, sys::KYMO_CUSTOM_F64, |value| f64::from(value).to_bits();
    f64, sys::KYMO_CUSTOM_F64, |value| value.to_bits();
    bool, sys::KYMO_CUSTOM_BOOL, |value| u64::from(value);
}

impl Value for Duration {
    const KIND: u32 = sys::KYMO_CUSTOM_U64;
    const UNIT: &'static str = "ns";

    fn put(&self, out: &mut Values) {
        out.word(u64::try_from(self.as_nanos()).unwrap_or(u64::MAX));
    }
}

impl Value for str {
    const KIND: u32 = sys::KYMO_CUSTOM_STRING;

    fn put(&self, out: &mut Values) {
        out.text(self);
    }
}

impl Value for String {
    const KIND: u32 = sys::KYMO_CUSTOM_STRING;

    fn put(&self, out: &mut Values) {
        out.text(self);
    }
}

impl Value for Cow<'_, str> {
    const KIND: u32 = sys::KYMO_CUSTOM_STRING;

    fn put(&self, out: &mut Values) {
        out.text(self);
    }
}

macro_rules! pointers {
    ($($type:ident),*) => {
        $(impl<V: Value + ?Sized> Value for $type<V> {
            const KIND: u32 = V::KIND;
            const UNIT: &'static str = V::UNIT;

            fn put(&self, out: &mut Values) {
                (**self).put(out);
            }
        })*
    };
}

pointers! { Box, Rc, Arc }

/// The kind of what is inside a list or a map, where nothing can be absent.
const fn element<V: Value + ?Sized>() -> u32 {
    assert!(V::KIND & sys::KYMO_CUSTOM_OPTIONAL == 0, "an Option cannot be inside a list or a map");
    V::KIND
}

/// And of a key: no list, no map.
const fn key<V: Value + ?Sized>() -> u32 {
    assert!(V::KIND < sys::KYMO_CUSTOM_LIST, "the keys of a map are numbers or texts");
    element::<V>()
}

impl<V: Value> Value for [V] {
    const KIND: u32 = sys::KYMO_CUSTOM_LIST;
    const UNIT: &'static str = V::UNIT;

    fn put(&self, out: &mut Values) {
        out.list(const { element::<V>() }, self.len(), self.iter());
    }
}

impl<V: Value> Value for Vec<V> {
    const KIND: u32 = sys::KYMO_CUSTOM_LIST;
    const UNIT: &'static str = V::UNIT;

    fn put(&self, out: &mut Values) {
        self.as_slice().put(out);
    }
}

impl<V: Value, const COUNT: usize> Value for [V; COUNT] {
    const KIND: u32 = sys::KYMO_CUSTOM_LIST;
    const UNIT: &'static str = V::UNIT;

    fn put(&self, out: &mut Values) {
        self.as_slice().put(out);
    }
}

macro_rules! lists {
    ($($type:ty, [$($parameter:ident),*];)*) => {
        $(impl<V: Value $(, $parameter)*> Value for $type {
            const KIND: u32 = sys::KYMO_CUSTOM_LIST;
            const UNIT: &'static str = V::UNIT;

            fn put(&self, out: &mut Values) {
                out.list(const { element::<V>() }, self.len(), self.iter());
            }
        })*
    };
}

lists! {
    VecDeque<V>, [];
    BTreeSet<V>, [];
    HashSet<V, S>, [S];
}

macro_rules! maps {
    ($($type:ty, [$($parameter:ident),*];)*) => {
        /// The unit is that of the values.
        $(impl<K: Value, V: Value $(, $parameter)*> Value for $type {
            const KIND: u32 = sys::KYMO_CUSTOM_MAP;
            const UNIT: &'static str = V::UNIT;

            fn put(&self, out: &mut Values) {
                let kinds = const { (key::<K>(), element::<V>()) };

                out.map(kinds, self.len(), self.iter());
            }
        })*
    };
}

maps! {
    BTreeMap<K, V>, [];
    HashMap<K, V, S>, [S];
}

impl<V: Value + ?Sized> Value for &V {
    const KIND: u32 = V::KIND;
    const UNIT: &'static str = V::UNIT;

    fn put(&self, out: &mut Values) {
        (**self).put(out);
    }
}

impl<V: Value> Value for Option<V> {
    const KIND: u32 = V::KIND | sys::KYMO_CUSTOM_OPTIONAL;
    const UNIT: &'static str = V::UNIT;

    fn put(&self, out: &mut Values) {
        out.word(u64::from(self.is_some()));
        if let Some(value) = self {
            value.put(out);
        }
    }
}

/// A text that repeats: it is in the trace once, and each event has its number. Each different
/// text takes room in the recorder's directory. The attribute `#[kymo(intern)]` makes one of a
/// text, of an optional one, and of the texts of a list.
#[derive(Clone, Copy, Debug)]
pub struct Interned<T>(pub T);

/// What [`Interned`] can be of.
pub trait Texts {
    #[doc(hidden)]
    const KIND: u32;
    #[doc(hidden)]
    fn put_interned(&self, out: &mut Values);
}

impl<T: Texts> Value for Interned<T> {
    const KIND: u32 = T::KIND;

    fn put(&self, out: &mut Values) {
        self.0.put_interned(out);
    }
}

impl Texts for str {
    const KIND: u32 = sys::KYMO_CUSTOM_INTERNED;

    fn put_interned(&self, out: &mut Values) {
        out.word(u64::from(raw::intern_string(self)));
    }
}

macro_rules! texts {
    ($($type:ty),*) => {
        $(impl Texts for $type {
            const KIND: u32 = sys::KYMO_CUSTOM_INTERNED;

            fn put_interned(&self, out: &mut Values) {
                str::put_interned(self, out);
            }
        })*
    };
}

texts! { String, Cow<'_, str>, Box<str>, Rc<str>, Arc<str> }

impl<T: Texts + ?Sized> Texts for &T {
    const KIND: u32 = T::KIND;

    fn put_interned(&self, out: &mut Values) {
        (**self).put_interned(out);
    }
}

impl<T: Texts> Texts for Option<T> {
    const KIND: u32 = T::KIND | sys::KYMO_CUSTOM_OPTIONAL;

    fn put_interned(&self, out: &mut Values) {
        out.word(u64::from(self.is_some()));
        if let Some(text) = self {
            text.put_interned(out);
        }
    }
}

impl<T: Texts> Texts for Vec<T> {
    const KIND: u32 = sys::KYMO_CUSTOM_LIST;

    fn put_interned(&self, out: &mut Values) {
        out.list(const { element::<Interned<T>>() }, self.len(), self.iter().map(Interned));
    }
}

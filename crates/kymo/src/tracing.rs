// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans and events of the crate `tracing`, beside the tasks that they happen in.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tracing::callsite::Identifier;
use tracing::field::{Field as TracingField, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event as TracingEvent, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer as SubscriberLayer};
use tracing_subscriber::registry::LookupSpan;

use crate::event::{Field, Values};
use crate::names::Cached;
use crate::raw;
use crate::span_ids::SpanIds;
use crate::Span;
use kymo_sys as sys;

/// A layer for `tracing-subscriber`: a span of `tracing` is one of the trace from its creation to
/// its close, with its parent, what it follows from, and its fields; each time that a thread enters
/// it and leaves it is recorded, so the trace says how much of it was spent at work. An event of
/// `tracing` is one of the trace. Filters and other layers work beside it.
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// tracing_subscriber::registry().with(kymo::tracing_layer()).init();
/// tracing::info_span!("checkout", order = 7).in_scope(|| tracing::info!("paid"));
/// ```
#[derive(Default)]
pub struct TracingLayer {
    sites: RwLock<HashMap<Identifier, Arc<Site>>>,
    ids: SpanIds,
}

/// A [`TracingLayer`].
pub fn tracing_layer() -> TracingLayer {
    TracingLayer::default()
}

/// What is known of a call site: told to the recorder once.
struct Site {
    metadata: &'static Metadata<'static>,
    /// Its name as that of a span.
    name: Cached,
    /// Its fields as an event's: each combination of types that was met.
    types: Mutex<Vec<(Vec<u32>, Arc<Cached>)>>,
}

enum Given {
    U64(u64),
    I64(i64),
    F64(f64),
    Bool(bool),
    Text(String),
}

impl Given {
    fn kind(&self) -> u32 {
        match self {
            Given::U64(_) => sys::KYMO_CUSTOM_U64,
            Given::I64(_) => sys::KYMO_CUSTOM_I64,
            Given::F64(_) => sys::KYMO_CUSTOM_F64,
            Given::Bool(_) => sys::KYMO_CUSTOM_BOOL,
            Given::Text(_) => sys::KYMO_CUSTOM_STRING,
        }
    }

    fn put(&self, out: &mut Values) {
        match self {
            Given::U64(value) => out.word(*value),
            Given::I64(value) => out.word(*value as u64),
            Given::F64(value) => out.word(value.to_bits()),
            Given::Bool(value) => out.word(u64::from(*value)),
            Given::Text(text) => out.text(text),
        }
    }
}

/// The values of a call site's fields, in the order of its fields.
struct Collected(Vec<(&'static str, Given)>);

impl Visit for Collected {
    fn record_u64(&mut self, field: &TracingField, value: u64) {
        self.0.push((field.name(), Given::U64(value)));
    }

    fn record_i64(&mut self, field: &TracingField, value: i64) {
        self.0.push((field.name(), Given::I64(value)));
    }

    fn record_f64(&mut self, field: &TracingField, value: f64) {
        self.0.push((field.name(), Given::F64(value)));
    }

    fn record_bool(&mut self, field: &TracingField, value: bool) {
        self.0.push((field.name(), Given::Bool(value)));
    }

    fn record_str(&mut self, field: &TracingField, value: &str) {
        self.0.push((field.name(), Given::Text(value.to_owned())));
    }

    fn record_debug(&mut self, field: &TracingField, value: &dyn std::fmt::Debug) {
        self.0.push((field.name(), Given::Text(format!("{value:?}"))));
    }
}

impl Site {
    fn name_id(&self) -> u32 {
        self.name.get(|| raw::intern_name(self.metadata.name()))
    }

    /// The recorder's number of an event with these fields.
    fn event_id(&self, values: &Collected) -> u32 {
        let kinds: Vec<u32> = values
            .0
            .iter()
            .map(|(name, value)| {
                let place = self.metadata.fields().iter().position(|field| field.name() == *name);

                value.kind() | (place.unwrap_or(0) as u32) << 8
            })
            .collect();
        let cached = {
            let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);

            match types.iter().find(|(known, _)| *known == kinds) {
                Some((_, cached)) => cached.clone(),
                None => {
                    let cached = Arc::new(Cached::new());

                    types.push((kinds, cached.clone()));
                    cached
                }
            }
        };

        cached.get(|| {
            let optional = sys::KYMO_CUSTOM_U64 | sys::KYMO_CUSTOM_OPTIONAL;
            let mut fields = vec![Field { name: "span_id".into(), kind: optional, unit: "" }];

            fields.extend(values.0.iter().map(|(name, value)| Field {
                name: (*name).to_owned(),
                kind: value.kind(),
                unit: "",
            }));
            raw::register_event(&self.event_name(), &fields)
        })
    }

    /// Of a span its name; of an event, whose name is a line of a file, its level and target.
    fn event_name(&self) -> String {
        if self.metadata.is_span() {
            format!("span {}", self.metadata.name())
        } else {
            format!("{} {}", self.metadata.level(), self.metadata.target())
        }
    }

    fn write(&self, span: u64, values: &Collected) {
        let id = self.event_id(values);

        if id == 0 {
            return;
        }
        let mut out = Values::new(id);

        out.word(u64::from(span != 0));
        if span != 0 {
            out.word(span);
        }
        for (_, value) in &values.0 {
            value.put(&mut out);
        }
        out.write();
    }
}

impl TracingLayer {
    fn site(&self, metadata: &'static Metadata<'static>) -> Arc<Site> {
        let key = metadata.callsite();

        if let Some(site) = self.sites.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return site.clone();
        }
        let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Site { metadata, name: Cached::new(), types: Mutex::new(Vec::new()) };

        sites.entry(key).or_insert_with(|| Arc::new(new())).clone()
    }

    /// The recorder's span; 0: it is not recorded.
    #[inline]
    fn id_of<S>(&self, context: &Context<'_, S>, id: &Id) -> u64
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        match self.ids.find(id.into_u64()) {
            Some(ours) => ours,
            None if is_wanted(sys::KYMO_GATE_SPAN) => id_in(context, id),
            None => 0,
        }
    }
}

/// The recorder's span of one of the registry, which locks it for that; 0: none.
#[cold]
fn id_in<S>(context: &Context<'_, S>, id: &Id) -> u64
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let span = context.span(id);

    span.and_then(|span| span.extensions().get::<Span>().map(Span::id)).unwrap_or(0)
}

fn is_wanted(gate: u32) -> bool {
    raw::gates() & gate != 0
}

impl<S> SubscriberLayer<S> for TracingLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !is_wanted(sys::KYMO_GATE_SPAN) {
            return;
        }
        let Some(span) = context.span(id) else { return };
        let site = self.site(attributes.metadata());
        let parent = span.parent().map_or(0, |parent| self.id_of(&context, &parent.id()));
        let parent = if parent == 0 { crate::request_id().unwrap_or(0) } else { parent };
        let ours = Span::begin(site.name_id(), parent);

        if is_wanted(sys::KYMO_GATE_CUSTOM) && !attributes.metadata().fields().is_empty() {
            let mut values = Collected(Vec::new());

            attributes.record(&mut values);
            if !values.0.is_empty() {
                site.write(ours.id(), &values);
            }
        }
        if ours.id() != 0 {
            self.ids.insert(id.into_u64(), ours.id());
        }
        span.extensions_mut().insert(ours);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        raw::enter_span(self.id_of(&context, id));
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        raw::leave_span(self.id_of(&context, id));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        raw::follow_span(self.id_of(&context, id), self.id_of(&context, follows));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };

        if is_wanted(sys::KYMO_GATE_CUSTOM) {
            let mut later = Collected(Vec::new());

            values.record(&mut later);
            self.site(span.metadata()).write(self.id_of(&context, id), &later);
        }
    }

    fn on_event(&self, event: &TracingEvent<'_>, context: Context<'_, S>) {
        if !is_wanted(sys::KYMO_GATE_CUSTOM) {
            return;
        }
        let span = context.event_span(event).map_or(0, |span| self.id_of(&context, &span.id()));
        let mut values = Collected(Vec::new());

        event.record(&mut values);
        self.site(event.metadata()).write(span, &values);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(span) = context.span(&id) {
            self.ids.remove(id.into_u64());
            // Dropped: it ends here.
            drop(span.extensions_mut().remove::<Span>());
        }
    }
}

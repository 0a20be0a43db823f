// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Macros of the crate `kymo`, which documents them.
use proc_macro::TokenStream;

mod event;
mod runtime;

/// `#[kymo::main]`: see the crate `kymo`.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    runtime::main(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// `#[kymo::test]`: see the crate `kymo`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    runtime::test(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// `#[derive(kymo::Event)]`: see the crate `kymo`.
#[proc_macro_derive(Event, attributes(kymo))]
pub fn event(item: TokenStream) -> TokenStream {
    event::derive(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

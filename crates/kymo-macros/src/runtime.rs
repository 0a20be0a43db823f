// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `#[kymo::main]` and `#[kymo::test]`: Tokio's attributes of the same names, with the recorder.
use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, ItemFn, Lit, MetaNameValue, Token};

/// How the runtime is built: Tokio's own keys.
struct Arguments {
    builder: TokenStream,
    workers: Option<Expr>,
    is_paused: bool,
}

fn read(arguments: TokenStream, is_multi_thread: bool) -> Result<Arguments, Error> {
    let multi_thread = quote!(::kymo::__private::tokio::runtime::Builder::new_multi_thread());
    let current_thread = quote!(::kymo::__private::tokio::runtime::Builder::new_current_thread());
    let mut read = Arguments {
        builder: if is_multi_thread { multi_thread.clone() } else { current_thread.clone() },
        workers: None,
        is_paused: false,
    };

    for pair in Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse2(arguments)? {
        let text = match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.value(),
            _ => String::new(),
        };

        if pair.path.is_ident("flavor") {
            read.builder = match text.as_str() {
                "multi_thread" => multi_thread.clone(),
                "current_thread" => current_thread.clone(),
                _ => {
                    let what = "flavor is \"multi_thread\" or \"current_thread\"";

                    return Err(Error::new_spanned(pair.value, what));
                }
            };
        } else if pair.path.is_ident("worker_threads") {
            read.workers = Some(pair.value);
        } else if pair.path.is_ident("start_paused") {
            read.is_paused = matches!(
                &pair.value,
                Expr::Lit(ExprLit { lit: Lit::Bool(value), .. }) if value.value
            );
        } else {
            let what = "it takes flavor, worker_threads and start_paused";

            return Err(Error::new_spanned(pair.path, what));
        }
    }
    Ok(read)
}

fn function(item: TokenStream) -> Result<ItemFn, Error> {
    let mut function: ItemFn = syn::parse2(item)?;

    if function.sig.asyncness.take().is_none() {
        return Err(Error::new_spanned(&function.sig, "it has to be an async fn"));
    }
    if !function.sig.inputs.is_empty() {
        return Err(Error::new_spanned(&function.sig.inputs, "it takes no arguments"));
    }
    Ok(function)
}

fn runtime(arguments: &Arguments) -> TokenStream {
    let builder = &arguments.builder;
    let workers = arguments.workers.iter().map(|count| quote!(.worker_threads(#count)));
    let paused = arguments.is_paused.then(|| quote!(.start_paused(true)));

    quote!(#builder #(#workers)* .enable_all() #paused .build().expect("a Tokio runtime"))
}

pub(crate) fn main(arguments: TokenStream, item: TokenStream) -> Result<TokenStream, Error> {
    let arguments = read(arguments, true)?;
    let ItemFn { attrs, vis, sig, block, .. } = function(item)?;
    let runtime = runtime(&arguments);

    Ok(quote! {
        #(#attrs)*
        #vis #sig {
            ::kymo::init();
            let runtime = #runtime;
            let result = runtime.block_on(async #block);

            drop(runtime);
            ::kymo::__private::end_main();
            result
        }
    })
}

pub(crate) fn test(arguments: TokenStream, item: TokenStream) -> Result<TokenStream, Error> {
    let arguments = read(arguments, false)?;
    let ItemFn { attrs, vis, sig, block, .. } = function(item)?;
    let runtime = runtime(&arguments);
    let name = &sig.ident;

    Ok(quote! {
        #[::core::prelude::v1::test]
        #(#attrs)*
        #vis #sig {
            ::kymo::__private::test(
                ::core::concat!(::core::module_path!(), "::", ::core::stringify!(#name)),
                || #runtime.block_on(async #block),
            )
        }
    })
}

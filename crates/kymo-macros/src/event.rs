// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `#[derive(kymo::Event)]`.
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Fields, LitStr};

#[derive(Default)]
struct Wishes {
    name: Option<String>,
    unit: String,
    is_interned: bool,
    is_flat: bool,
    is_skipped: bool,
}

fn read(attributes: &[Attribute]) -> Result<Wishes, Error> {
    let mut wishes = Wishes::default();

    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("kymo")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                wishes.name = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("unit") {
                wishes.unit = meta.value()?.parse::<LitStr>()?.value();
            } else if meta.path.is_ident("intern") {
                wishes.is_interned = true;
            } else if meta.path.is_ident("flatten") {
                wishes.is_flat = true;
            } else if meta.path.is_ident("skip") {
                wishes.is_skipped = true;
            } else {
                return Err(meta.error("there are name, unit, intern, flatten and skip"));
            }
            Ok(())
        })?;
    }
    Ok(wishes)
}

pub(crate) fn derive(item: TokenStream) -> Result<TokenStream, Error> {
    let input: DeriveInput = syn::parse2(item)?;
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "an event is a struct"));
    };
    let Fields::Named(named) = &data.fields else {
        return Err(Error::new_spanned(&input.ident, "an event has named fields"));
    };
    if input.generics.type_params().next().is_some() {
        return Err(Error::new_spanned(&input.generics, "an event has no type parameters"));
    }
    let name = read(&input.attrs)?.name.unwrap_or_else(|| input.ident.to_string());
    let (mut fields, mut values) = (Vec::new(), Vec::new());

    for field in &named.named {
        let wishes = read(&field.attrs)?;
        let (ident, kind, unit) = (&field.ident, &field.ty, &wishes.unit);
        let text = wishes.name.clone().unwrap_or_else(|| {
            ident.as_ref().map_or(String::new(), |ident| {
                ident.to_string().trim_start_matches("r#").to_owned()
            })
        });

        if wishes.is_skipped {
            continue;
        }
        if wishes.is_flat {
            fields.push(quote! {
                <#kind as ::kymo::Event>::fields(&::std::format!("{prefix}{}.", #text), out);
            });
            values.push(quote!(::kymo::Event::put(&self.#ident, out);));
        } else if wishes.is_interned {
            fields.push(quote! {
                out.push(::kymo::Field::of::<::kymo::Interned<#kind>>(prefix, #text, #unit));
            });
            values.push(quote!(::kymo::Value::put(&::kymo::Interned(&self.#ident), out);));
        } else {
            fields.push(quote!(out.push(::kymo::Field::of::<#kind>(prefix, #text, #unit));));
            values.push(quote!(::kymo::Value::put(&self.#ident, out);));
        }
    }
    let ident = &input.ident;
    let (of_impl, of_type, bounds) = input.generics.split_for_impl();

    Ok(quote! {
        impl #of_impl ::kymo::Event for #ident #of_type #bounds {
            fn name() -> &'static str {
                #name
            }
            fn fields(prefix: &str, out: &mut ::std::vec::Vec<::kymo::Field>) {
                let _ = (&prefix, &out);
                #(#fields)*
            }
            fn put(&self, out: &mut ::kymo::Values) {
                let _ = &out;
                #(#values)*
            }
            fn id() -> &'static ::kymo::__private::Cached {
                static ID: ::kymo::__private::Cached = ::kymo::__private::Cached::new();

                &ID
            }
        }
    })
}

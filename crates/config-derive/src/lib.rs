//! Derives how a table of the configuration is read and described from the type that holds it.
//!
//! One field is one key. Its doc comment is its text in `conf/reference.toml` and in the JSON Schema; its attribute says how a value is
//! written, and what holds where none is:
//!
//! ```text
//! /// What `retries` are for.
//! #[derive(Table)]
//! #[table(path = "origin.NAME.retry", check = later_than_now)]
//! pub struct RetryRules {
//!     /// How many retries there may be for a hundred requests of the second before. 0% to 100%.
//!     #[key(example = "\"20%\"", default = Percent(20), reader = ParsedText(percent))]
//!     pub budget: Percent,
//! }
//! ```
//!
//! | of a table | |
//! |---|---|
//! | `path` | the table as `known_keys` names it; in the reference it stands as `[origin.app.retry]` |
//! | `check` | optional: a function that judges the keys together, `fn(&RetryRulesKeys, &Section<'_>) -> Option<()>` |
//!
//! | of a key | |
//! |---|---|
//! | `example` | a right value, as TOML, for messages |
//! | `reader` | reads and describes the value: a `KeyReader` |
//! | `default` | optional: the value where none is written; without it the field is an `Option` |
//! | `shown` | optional: what the reference writes, where that is not the example |
//!
//! The derived code names `Section`, `TableDeclaration` and `KeyDeclaration` by their paths in the gateway, where alone it is used.
//!
//! # Errors
//! A field without an attribute, without a comment, or with an unknown word in the attribute does not compile.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Lit, LitStr, Result};

/// Derives the reader and the declaration of a table.
#[proc_macro_derive(Table, attributes(table, key))]
pub fn derive_table(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

/// The attribute of a table.
struct TableAttribute {
    path: LitStr,
    check: Option<Expr>,
}

/// The attribute of a key.
struct KeyAttribute {
    example: LitStr,
    reader: Expr,
    default: Option<Expr>,
    shown: Option<LitStr>,
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(input, "a table is a struct"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(input, "the keys of a table have names"));
    };
    let table = table_attribute(input)?;
    let keys: Vec<(&Field, KeyAttribute)> = fields
        .named
        .iter()
        .map(|field| Ok((field, key_attribute(field)?)))
        .collect::<Result<_>>()?;
    let name = &input.ident;
    let keys_name = format_ident!("{name}Keys");
    let keys_comment =
        format!("The keys of [`{name}`] as they were read; `None` is a wrong value.");
    let held: Vec<TokenStream> = keys
        .iter()
        .map(|(field, _)| {
            let (ident, kind) = (&field.ident, &field.ty);
            quote!(#ident: Option<#kind>)
        })
        .collect();
    let read: Vec<TokenStream> = keys
        .iter()
        .map(|(field, key)| {
            let ident = &field.ident;
            let key_name = name_of(field);
            let KeyAttribute { example, reader, default, .. } = key;
            match default {
                Some(default) => quote! {
                    #ident: section.or(#key_name, #example, #default, |field| KeyReader::read(&#reader, field))
                },
                None => quote! {
                    #ident: section.optional(#key_name, #example, |field| KeyReader::read(&#reader, field))
                },
            }
        })
        .collect();
    let declared = keys
        .iter()
        .map(|(field, key)| {
            let key_name = name_of(field);
            let comment = comment(&field.attrs, field)?;
            let KeyAttribute {
                example, reader, ..
            } = key;
            let shown = key.shown.as_ref().unwrap_or(example);
            let kind = match key.default {
                Some(_) => field.ty.clone(),
                None => inside_option(field)?,
            };
            Ok(quote! {
                KeyDeclaration {
                    name: #key_name,
                    comment: #comment,
                    shown: #shown,
                    form: KeyReader::<#kind>::form(&#reader),
                }
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let idents: Vec<_> = keys.iter().map(|(field, _)| &field.ident).collect();
    let check = table.check.map(|check| {
        quote! {
            let checked: Option<()> = #check(&keys, &section);
        }
    });
    let passed = check.is_some().then(|| quote!(checked?;));
    let (path, table_comment) = (&table.path, comment(&input.attrs, input)?);
    Ok(quote! {
        #[doc = #keys_comment]
        #[derive(Debug)]
        struct #keys_name {
            #(#held),*
        }

        impl #name {
            /// Reads the table; `None` when something is wrong with it, which was reported then.
            pub(in crate::config) fn read(section: crate::config::section::Section<'_>) -> Option<Self> {
                use crate::config::declaration::KeyReader;
                let keys = #keys_name {
                    #(#read),*
                };
                #check
                section.finish();
                #passed
                Some(Self {
                    #(#idents: keys.#idents?),*
                })
            }

            /// Describes the table.
            pub(in crate::config) fn declaration() -> crate::config::declaration::TableDeclaration {
                use crate::config::declaration::{KeyDeclaration, KeyReader, TableDeclaration};
                TableDeclaration {
                    path: #path,
                    comment: #table_comment,
                    keys: vec![#(#declared),*],
                }
            }
        }
    })
}

fn table_attribute(input: &DeriveInput) -> Result<TableAttribute> {
    let (mut path, mut check) = (None, None);
    let attributes = input
        .attrs
        .iter()
        .filter(|found| found.path().is_ident("table"));
    for attribute in attributes {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("path") {
                path = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("check") {
                check = Some(meta.value()?.parse()?);
            } else {
                return Err(meta.error("write `path` or `check`"));
            }
            Ok(())
        })?;
    }
    let path = path.ok_or_else(|| Error::new_spanned(input, "write #[table(path = \"…\")]"))?;
    Ok(TableAttribute { path, check })
}

fn key_attribute(field: &Field) -> Result<KeyAttribute> {
    let (mut example, mut reader, mut default, mut shown) = (None, None, None, None);
    let attributes = field
        .attrs
        .iter()
        .filter(|found| found.path().is_ident("key"));
    for attribute in attributes {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("example") {
                example = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("reader") {
                reader = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("default") {
                default = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("shown") {
                shown = Some(meta.value()?.parse()?);
            } else {
                return Err(meta.error("write `example`, `reader`, `default` or `shown`"));
            }
            Ok(())
        })?;
    }
    let missing = |what| Error::new_spanned(field, format!("write #[key({what} = …)]"));
    Ok(KeyAttribute {
        example: example.ok_or_else(|| missing("example"))?,
        reader: reader.ok_or_else(|| missing("reader"))?,
        default,
        shown,
    })
}

/// The doc comment, one line of it a line.
fn comment(attributes: &[Attribute], of: &impl quote::ToTokens) -> Result<String> {
    let lines = attributes.iter().filter_map(|attribute| {
        let meta = attribute.meta.require_name_value().ok()?;
        match &meta.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(line),
                ..
            }) if meta.path.is_ident("doc") => {
                let line = line.value();
                Some(line.strip_prefix(' ').unwrap_or(&line).to_owned())
            }
            _ => None,
        }
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return Err(Error::new_spanned(
            of,
            "write what it is for, as a doc comment",
        ));
    }
    Ok(lines.join("\n"))
}

fn name_of(field: &Field) -> String {
    let ident = field.ident.as_ref().map(ToString::to_string);
    ident
        .unwrap_or_default()
        .trim_start_matches("r#")
        .to_owned()
}

/// The type inside the `Option` of a key without a default.
fn inside_option(field: &Field) -> Result<syn::Type> {
    let wrong = || {
        Error::new_spanned(
            field,
            "without a default it is an Option, or write #[key(default = …)]",
        )
    };
    let syn::Type::Path(path) = &field.ty else {
        return Err(wrong());
    };
    let last = path
        .path
        .segments
        .last()
        .filter(|last| last.ident == "Option");
    match last.map(|last| &last.arguments) {
        Some(syn::PathArguments::AngleBracketed(arguments)) => match arguments.args.first() {
            Some(syn::GenericArgument::Type(inside)) => Ok(inside.clone()),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

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
//! | `path` | the table as `known_keys` names it, in the reference `[origin.app.retry]`; without it the keys are part of another table |
//! | `check` | optional: a function that checks or completes the keys, `fn(&mut RetryRulesKeys, &TableSection<'_>) -> Option<()>` |
//!
//! | of a key | |
//! |---|---|
//! | `example` | a right value, as TOML, for messages |
//! | `reader` | reads and describes the value: a `KeyReader` |
//! | `default` | optional: the value where none is written. Without it the field is an `Option`, or the key must be written |
//! | `shown` | optional: what the reference writes, where that is not the example |
//! | `nested` | in place of a reader: the type of the field declares a table, which is read like an empty one where it is not written |
//!
//! A field with `#[part]` has the keys that its type declares, in the same table. `#[part(read = …, keys = …)]` names the two functions
//! for a type that is made from those keys: `fn(&TableSection<'_>) -> Option<T>` and `fn() -> Vec<KeyDeclaration>`.
//!
//! The derived code names `TableSection`, `TableDeclaration` and `KeyDeclaration` by their paths in `sluicegate-config`, the only crate
//! that can use it.
//!
//! # Errors
//! A field without an attribute, without a comment, or with an unknown word in the attribute does not compile.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Lit, LitStr, Result};

/// Derives the reader and the declaration of a table.
#[proc_macro_derive(Table, attributes(table, key, part))]
pub fn derive_table(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

/// The attribute of a table.
struct TableAttribute {
    path: Option<LitStr>,
    check: Option<Expr>,
}

/// The attribute of a field.
enum FieldAttribute {
    Key(KeyAttribute),
    Part { read: Expr, keys: Expr },
}

/// The attribute of a key.
struct KeyAttribute {
    example: LitStr,
    /// `None` where the type of the field declares a table.
    reader: Option<Expr>,
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
    let name = &input.ident;
    let keys_name = format_ident!("{name}Keys");
    let keys_comment =
        format!("The keys of [`{name}`] as they were read; `None` is a wrong value.");
    let mut held = vec![];
    let mut read = vec![];
    let mut declared = vec![];
    let mut idents = vec![];
    for field in &fields.named {
        let ident = &field.ident;
        let kind = &field.ty;
        let attribute = field_attribute(field)?;
        idents.push(ident);
        held.push(quote!(#ident: Option<#kind>));
        read.push(reading(field, &attribute));
        declared.push(declaring(field, &attribute)?);
    }
    let check = table.check.map(|check| {
        quote! {
            let checked: Option<()> = #check(&mut keys, section);
            checked?;
        }
    });
    let mutable = check.is_some().then(|| quote!(mut));
    let of_table = match &table.path {
        Some(path) => Some(reading_table(path, &comment(&input.attrs, input)?)),
        None => None,
    };
    Ok(quote! {
        #[doc = #keys_comment]
        #[derive(Debug)]
        struct #keys_name {
            #(#held),*
        }

        impl #name {
            /// Reads the keys; `None` when something is wrong with them, which was reported then.
            pub(crate) fn read_keys(section: &crate::section::TableSection<'_>) -> Option<Self> {
                use crate::declaration::KeyReader;
                let #mutable keys = #keys_name {
                    #(#read),*
                };
                #check
                Some(Self {
                    #(#idents: keys.#idents?),*
                })
            }

            /// Describes the keys.
            pub(crate) fn keys() -> Vec<crate::declaration::KeyDeclaration> {
                use crate::declaration::{KeyDeclaration, KeyReader, ValueForm};
                let mut keys = Vec::new();
                #(#declared)*
                keys
            }

            #of_table
        }
    })
}

/// The reader of the whole table, and its declaration.
fn reading_table(path: &LitStr, comment: &str) -> TokenStream {
    quote! {
        /// Reads the table; `None` when something is wrong with it, which was reported then.
        pub(crate) fn read(section: crate::section::TableSection<'_>) -> Option<Self> {
            let read = Self::read_keys(&section);
            section.finish();
            read
        }

        /// Describes the table.
        pub(crate) fn declaration() -> crate::declaration::TableDeclaration {
            crate::declaration::TableDeclaration {
                path: #path,
                comment: #comment,
                keys: Self::keys(),
            }
        }
    }
}

/// Reads what a field holds.
fn reading(field: &Field, attribute: &FieldAttribute) -> TokenStream {
    let ident = &field.ident;
    let kind = &field.ty;
    let name = name_of(field);
    let KeyAttribute {
        example,
        reader,
        default,
        ..
    } = match attribute {
        FieldAttribute::Part { read, .. } => return quote!(#ident: (#read)(section)),
        FieldAttribute::Key(key) => key,
    };
    let Some(reader) = reader else {
        return quote!(#ident: <#kind>::read(section.section(#name, #example)));
    };
    let read = quote!(|field| KeyReader::read(&#reader, field));
    match default {
        Some(default) => quote!(#ident: section.or(#name, #example, #default, #read)),
        None if inside_option(field).is_some() => {
            quote!(#ident: section.optional(#name, #example, #read))
        }
        None => quote! {
            #ident: section.required(#name, #example).and_then(|field| KeyReader::read(&#reader, &field))
        },
    }
}

/// Adds the keys of a field to `keys`.
fn declaring(field: &Field, attribute: &FieldAttribute) -> Result<TokenStream> {
    let key = match attribute {
        FieldAttribute::Part { keys, .. } => return Ok(quote!(keys.extend((#keys)());)),
        FieldAttribute::Key(key) => key,
    };
    let name = name_of(field);
    let comment = comment(&field.attrs, field)?;
    let shown = key.shown.as_ref().unwrap_or(&key.example);
    let kind = match &key.default {
        Some(_) => &field.ty,
        None => inside_option(field).unwrap_or(&field.ty),
    };
    let form = match &key.reader {
        Some(reader) => quote!(KeyReader::<#kind>::form(&#reader)),
        None => quote!(ValueForm::table()),
    };
    Ok(quote! {
        keys.push(KeyDeclaration { name: #name, comment: #comment, shown: #shown, form: #form });
    })
}

fn table_attribute(input: &DeriveInput) -> Result<TableAttribute> {
    let mut path = None;
    let mut check = None;
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
    Ok(TableAttribute { path, check })
}

fn field_attribute(field: &Field) -> Result<FieldAttribute> {
    let part = |found: &&Attribute| found.path().is_ident("part");
    let Some(attribute) = field.attrs.iter().find(part) else {
        return key_attribute(field).map(FieldAttribute::Key);
    };
    let kind = &field.ty;
    let mut read = syn::parse_quote!(<#kind>::read_keys);
    let mut keys = syn::parse_quote!(<#kind>::keys);
    if !matches!(attribute.meta, syn::Meta::Path(_)) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("read") {
                read = meta.value()?.parse()?;
            } else if meta.path.is_ident("keys") {
                keys = meta.value()?.parse()?;
            } else {
                return Err(meta.error("write `read` or `keys`"));
            }
            Ok(())
        })?;
    }
    Ok(FieldAttribute::Part { read, keys })
}

fn key_attribute(field: &Field) -> Result<KeyAttribute> {
    let mut example = None;
    let mut reader = None;
    let mut default = None;
    let mut shown = None;
    let mut is_nested = false;
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
            } else if meta.path.is_ident("nested") {
                is_nested = true;
            } else {
                let words = "write `example`, `reader`, `default`, `shown` or `nested`";
                return Err(meta.error(words));
            }
            Ok(())
        })?;
    }
    let missing = |what| Error::new_spanned(field, format!("write #[key({what} = …)]"));
    if reader.is_none() && !is_nested {
        return Err(missing("reader"));
    }
    Ok(KeyAttribute {
        example: example.ok_or_else(|| missing("example"))?,
        reader,
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

/// The type inside the `Option` of a key that need not be written and has no default.
fn inside_option(field: &Field) -> Option<&syn::Type> {
    let syn::Type::Path(path) = &field.ty else {
        return None;
    };
    let last = path.path.segments.last()?;
    match &last.arguments {
        syn::PathArguments::AngleBracketed(inside) if last.ident == "Option" => {
            match inside.args.first() {
                Some(syn::GenericArgument::Type(inside)) => Some(inside),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expands a declaration; the code, or the text of the error.
    fn expanded(declaration: &str) -> std::result::Result<String, String> {
        let input = syn::parse_str(declaration);
        let code = input.and_then(|input| expand(&input));
        code.map(|code| code.to_string())
            .map_err(|error| error.to_string())
    }

    /// A table with one key: the attributes of the table, those of the field, and the type of the field.
    fn table_of(table: &str, field: &str, kind: &str) -> String {
        format!("/// A table.\n{table}\nstruct Rules {{ {field}\n pub key: {kind} }}")
    }

    const KEY: &str = "/// A key.\n#[key(example = \"1\", reader = Number)]";

    /// Goal: a declaration that lacks a text or has an unknown word does not compile, and the error says what to write. Method: each
    /// declaration differs from a right one in one thing.
    #[test]
    fn wrong_declarations_do_not_compile() {
        let key = |field: &str| table_of("#[table(path = \"a\")]", field, "u32");
        let table = |table: &str| table_of(table, KEY, "u32");
        let no_comment = "write what it is for, as a doc comment";
        let key_words = "write `example`, `reader`, `default`, `shown` or `nested`";
        assert!(expanded(&key(KEY)).is_ok());
        for (declaration, error) in [
            (key("#[key(example = \"1\", reader = Number)]"), no_comment),
            (
                key("#[doc(hidden)] #[key(example = \"1\", reader = Number)]"),
                no_comment,
            ),
            (key("/// A key."), "write #[key(reader = …)]"),
            (
                key("/// A key.\n#[key(example = \"1\")]"),
                "write #[key(reader = …)]",
            ),
            (
                key("/// A key.\n#[key(reader = Number)]"),
                "write #[key(example = …)]",
            ),
            (
                key("/// A key.\n#[key(nested)]"),
                "write #[key(example = …)]",
            ),
            (key("/// A key.\n#[key(exmaple = \"1\")]"), key_words),
            (
                key("/// A key.\n#[key(example = 1, reader = Number)]"),
                "expected string literal",
            ),
            (key("#[part(read = a, key = b)]"), "write `read` or `keys`"),
            (table("#[table(pth = \"a\")]"), "write `path` or `check`"),
            (table("#[table(path = a)]"), "expected string literal"),
            (
                format!("#[table(path = \"a\")] struct Rules {{ {KEY} pub key: u32 }}"),
                no_comment,
            ),
            (
                "/// A table.\nenum Rules { Key }".to_owned(),
                "a table is a struct",
            ),
            (
                format!("/// A table.\nstruct Rules({KEY} u32);"),
                "the keys of a table have names",
            ),
        ] {
            assert_eq!(
                expanded(&declaration),
                Err(error.to_owned()),
                "{declaration}"
            );
        }
    }

    /// Goal: an error reaches the compiler. Method: the tokens that the macro returns for one.
    #[test]
    fn an_error_becomes_a_compile_error() {
        let input = syn::parse_str("enum Rules { Key }").unwrap();
        let code = expand(&input).unwrap_or_else(Error::into_compile_error);
        assert!(code.to_string().contains("compile_error"), "{code}");
    }

    /// Goal: what a declaration leaves out decides how its key is read. Method: a key of each form, and the call that reads it.
    #[test]
    fn right_declarations_become_calls() {
        let default = "/// A key.\n#[key(example = \"1\", default = 1, reader = Number)]";
        let nested = "/// A table.\n#[key(example = \"{}\", nested)]";
        let part = "#[part(read = read_inner, keys = inner_keys)]";
        for (table, field, kind, call) in [
            ("", KEY, "u32", "section . required (\"key\" , \"1\")"),
            (
                "",
                KEY,
                "Option<u32>",
                "section . optional (\"key\" , \"1\"",
            ),
            ("", default, "u32", "section . or (\"key\" , \"1\" , 1"),
            (
                "",
                nested,
                "Inner",
                "< Inner > :: read (section . section (\"key\"",
            ),
            (
                "",
                "#[part]",
                "Inner",
                "key : (< Inner > :: read_keys) (section)",
            ),
            ("", part, "Inner", "key : (read_inner) (section)"),
            (
                "#[table(check = apart)]",
                KEY,
                "u32",
                "apart (& mut keys , section)",
            ),
            ("#[table(path = \"a\")]", KEY, "u32", "path : \"a\""),
        ] {
            let code = expanded(&table_of(table, field, kind)).unwrap();
            assert!(code.contains(call), "{call}: {code}");
        }
    }
}

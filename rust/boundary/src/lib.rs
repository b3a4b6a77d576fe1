//! `#[boundary]`: makes every function that Python calls end in a value or an exception, never in a
//! panic. It precedes `#[pyfunction]` and `#[pymethods]`, and runs each body inside
//! `crate::errors::guard`, which turns a panic into an `InternalError`. A function with a plain
//! return value returns a `PyResult` of it.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Wraps the bodies of a function, or of all functions of an `impl` block, in
/// `crate::errors::guard`.
#[proc_macro_attribute]
pub fn boundary(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    guarded(item, true)
}

fn is(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

fn is_body(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// The tokens of an item with guarded functions; `outermost` may also be a block that holds them.
fn guarded(item: TokenStream, outermost: bool) -> TokenStream {
    let mut tokens = item.into_iter();
    let mut out = Vec::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) if outermost && group.delimiter() == Delimiter::Brace => {
                let mut block = Group::new(Delimiter::Brace, guarded(group.stream(), false));
                block.set_span(group.span());
                out.push(TokenTree::Group(block));
            }
            token if is(&token, "fn") => {
                out.push(token);
                let mut signature: Vec<TokenTree> = Vec::new();
                for token in tokens.by_ref() {
                    if is_body(&token) {
                        function(&mut out, signature, token);
                        break;
                    }
                    signature.push(token);
                }
            }
            token => out.push(token),
        }
    }
    out.into_iter().collect()
}

/// Writes a function's signature and its guarded body.
fn function(out: &mut Vec<TokenTree>, mut signature: Vec<TokenTree>, body: TokenTree) {
    let arrow = signature.windows(2).position(
        |pair| matches!(pair, [TokenTree::Punct(a), TokenTree::Punct(b)] if a.as_char() == '-' && b.as_char() == '>'),
    );
    let clause = signature.iter().position(|t| is(t, "where")).unwrap_or(signature.len());
    let result: TokenStream = match arrow {
        Some(end) => signature
            .get(end + 2..clause)
            .unwrap_or_default()
            .iter()
            .cloned()
            .collect(),
        None => "()".parse().unwrap_or_default(),
    };
    let fails = result
        .clone()
        .into_iter()
        .next()
        .is_some_and(|first| is(&first, "PyResult"));
    // The text has an empty block where the body goes: tokens that pass through text would lose
    // their source positions.
    let frame = match fails {
        true => format!("{{ crate::errors::guard(move || -> {result} {{}}) }}"),
        false => format!("{{ crate::errors::guard_value(move || -> {result} {{}}) }}"),
    };
    let frame: TokenStream = frame.parse().unwrap_or_default();
    if !fails {
        let rest: Vec<TokenTree> = signature.split_off(clause);
        signature.truncate(arrow.unwrap_or(clause));
        let plain: TokenStream = format!("-> ::pyo3::PyResult<{result}>").parse().unwrap_or_default();
        signature.extend(plain);
        signature.extend(rest);
    }
    out.extend(signature);
    out.extend(filled(frame, &TokenStream::from(body)));
}

/// Replaces the one empty block among the tokens with the body.
fn filled(frame: TokenStream, body: &TokenStream) -> TokenStream {
    let fill = |token: TokenTree| match token {
        TokenTree::Group(group) if is_body(&TokenTree::Group(group.clone())) && group.stream().is_empty() => {
            body.clone()
        }
        TokenTree::Group(group) => TokenTree::Group(Group::new(group.delimiter(), filled(group.stream(), body))).into(),
        token => TokenStream::from(token),
    };
    frame.into_iter().map(fill).collect()
}

//! `#[boundary]`: makes every function that Python calls end in a value or an exception, never in a
//! panic. It replaces `#[pyfunction]` and `#[pymethods]`, and runs each body inside
//! `crate::errors::guard`, which turns a panic into an `InternalError`. A function with a plain
//! return value returns a `PyResult` of it. A function that returns the core's `Result` runs inside
//! `crate::errors::run` also, without the GIL: its arguments must be values that need no Python.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// What pickle needs of a class around one serializable value.
const PICKLES: &str = "
    #[new]
    fn new(state: &[u8]) -> PyResult<Self> {
        crate::values::pickling::unpickled(state).map(Self)
    }

    fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, pyo3::types::PyBytes>> {
        crate::values::pickling::pickled(slf.as_any(), &slf.get().0).map(|(_, (bytes,))| bytes)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<crate::values::pickling::Pickled<'py>> {
        crate::values::pickling::pickled(slf.as_any(), &slf.get().0)
    }
";

/// Exports a function, or the functions of an `impl` block, with their bodies in
/// `crate::errors::guard`. `#[boundary(pickles)]` adds what pickle needs to the block of a class
/// that holds one serializable value: the constructor takes its bytes. `get(name: Type, …)` adds
/// a getter for each of these fields of the value. On a struct the attribute makes it a class that
/// has no more than these. A method without a body is one of the value that the class holds.
#[proc_macro_attribute]
pub fn boundary(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let added = added(arguments);
    let tokens: Vec<TokenTree> = item.clone().into_iter().collect();
    if let Some(index) = tokens.iter().position(|token| is(token, "struct")) {
        let name = tokens.get(index + 1).map(ToString::to_string).unwrap_or_default();
        let class = "#[::pyo3::pyclass(frozen, module = \"deltaplane._native\")]";
        let mut out: TokenStream = class.parse().unwrap_or_default();
        out.extend(item);
        out.extend("#[pymethods]".parse::<TokenStream>().unwrap_or_default());
        let block = format!("impl {name} {{}}").parse().unwrap_or_default();
        out.extend(guarded(block, Some(&added)));
        return out;
    }
    let exported = match tokens.iter().any(|token| is(token, "impl")) {
        true => "#[pymethods]",
        false => "#[pyfunction]",
    };
    let mut out: TokenStream = exported.parse().unwrap_or_default();
    out.extend(guarded(item, Some(&added)));
    out
}

/// The functions that the attribute's arguments ask for.
fn added(arguments: TokenStream) -> String {
    let mut added = String::new();
    for token in arguments {
        match token {
            token if is(&token, "pickles") => added += PICKLES,
            TokenTree::Group(fields) => added += &getters(fields.stream()),
            _ => {}
        }
    }
    added
}

/// A getter for each `name: Type`.
fn getters(fields: TokenStream) -> String {
    let parts = split(fields);
    let pairs = parts.iter().filter_map(|part| part.split_once(':'));
    pairs
        .map(|(name, kind)| {
            let name = name.trim();
            format!("#[getter]\nfn {name}(&self) -> {kind} {{ self.0.{name}.clone() }}\n")
        })
        .collect()
}

/// The texts between commas outside of `<…>`.
fn split(tokens: TokenStream) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for token in tokens {
        depth += i32::from(is(&token, "<")) - i32::from(is(&token, ">"));
        match parts.last_mut() {
            Some(part) if depth > 0 || !is(&token, ",") => *part += &format!("{token} "),
            _ => parts.push(String::new()),
        }
    }
    parts
}

fn is(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(_) | TokenTree::Punct(_)) && token.to_string() == word
}

fn is_body(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// The tokens of an item with guarded functions. The outermost one may also be a block that holds
/// them, to which functions are added.
fn guarded(item: TokenStream, added: Option<&str>) -> TokenStream {
    let mut tokens = item.into_iter();
    let mut out = Vec::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group)
                if let Some(added) = added
                    && group.delimiter() == Delimiter::Brace =>
            {
                let mut functions = group.stream();
                functions.extend(added.parse::<TokenStream>().unwrap_or_default());
                let mut block = Group::new(Delimiter::Brace, guarded(functions, None));
                block.set_span(group.span());
                out.push(TokenTree::Group(block));
            }
            token if is(&token, "fn") => {
                out.push(token);
                let mut signature: Vec<TokenTree> = Vec::new();
                for token in tokens.by_ref() {
                    let body = match is(&token, ";") {
                        true => delegated(&signature),
                        false => token,
                    };
                    if is_body(&body) {
                        function(&mut out, signature, body);
                        break;
                    }
                    signature.push(body);
                }
            }
            token => out.push(token),
        }
    }
    out.into_iter().collect()
}

/// The body of a method without one: it calls the method of its name of the value that the class
/// holds, and makes the result a `Record` where the signature says so.
fn delegated(signature: &[TokenTree]) -> TokenTree {
    let name = signature.first().map(ToString::to_string).unwrap_or_default();
    let arguments = signature.iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group.stream()),
        _ => None,
    });
    let names: Vec<String> = split(arguments.unwrap_or_default())
        .iter()
        .filter_map(|argument| Some(argument.split_once(':')?.0.trim().to_owned()))
        .collect();
    let call = format!("self.0.{name}({})", names.join(", "));
    let has = |word: &str| signature.iter().any(|token| is(token, word));
    let body = match (has("Record"), has("Result")) {
        (true, true) => format!("{call}.map(Record)"),
        (true, false) => format!("Record({call})"),
        _ => call,
    };
    Group::new(Delimiter::Brace, body.parse().unwrap_or_default()).into()
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
    let kind = result.clone().into_iter().next().map(|first| first.to_string());
    let kind = kind.as_deref();
    // The text has an empty block where the body goes: tokens that pass through text would lose
    // their source positions.
    let frame = match kind {
        Some("PyResult") => format!("{{ crate::errors::guard(move || -> {result} {{}}) }}"),
        Some("Result") => {
            format!("{{ crate::errors::guard(move || crate::errors::run(move || -> {result} {{}})) }}")
        }
        _ => format!("{{ let call = move || -> {result} {{}}; crate::errors::guard(move || Ok(call())) }}"),
    };
    let frame: TokenStream = frame.parse().unwrap_or_default();
    if kind != Some("PyResult") {
        let rest: Vec<TokenTree> = signature.split_off(clause);
        signature.truncate(arrow.unwrap_or(clause));
        let python = match (kind, result.to_string().split_once('<')) {
            (Some("Result"), Some((_, value))) => format!("-> ::pyo3::PyResult<{value}"),
            _ => format!("-> ::pyo3::PyResult<{result}>"),
        };
        signature.extend(python.parse::<TokenStream>().unwrap_or_default());
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

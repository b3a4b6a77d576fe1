//! Answers that mean "ask again", although object_store takes them for final: some of S3's
//! refusals, and listings whose body broke off or holds an error under a status of success. They
//! are given the status 503, which object_store repeats within the bounds of the options. Knows no
//! store.

use bytes::Bytes;
use object_store::client::{HttpError, HttpResponse, HttpResponseBody};
use reqwest::StatusCode;

/// Error bodies longer than this aren't examined.
const LONGEST_ERROR: u64 = 64 * 1024;
/// S3's names for refusals that pass: the request's bytes came too slowly, or its time was too far
/// from the server's clock.
const REFUSALS: &[&str] = &["<Code>RequestTimeout</Code>", "<Code>RequestTimeTooSkewed</Code>"];
/// The root elements of the answers that are read whole.
const ROOTS: &[&str] = &["ListBucketResult", "EnumerationResults", "DeleteResult"];

/// Whether a request asks for a listing or a deletion of several objects: its answer is small, and
/// asking again changes nothing.
pub(super) fn has_small_answer(method: &str, query: Option<&str>) -> bool {
    let names = |wanted: &str| query.is_some_and(|q| q.split('&').any(|pair| pair == wanted));
    match method {
        "GET" => names("list-type=2") || names("comp=list"),
        "POST" => names("delete") || names("delete="),
        _ => false,
    }
}

/// Whether the body may be examined for the name of an error.
pub(super) fn has_short_body(response: &HttpResponse) -> bool {
    let length = response.headers().get("content-length");
    let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    length.is_some_and(|length| length <= LONGEST_ERROR)
}

/// The response as object_store is shown it. `is_small` is the answer of [`has_small_answer`].
pub(super) async fn shown(response: HttpResponse, is_small: bool) -> Result<HttpResponse, HttpError> {
    let status = response.status().as_u16();
    let is_refusal = matches!(status, 400 | 403) && has_short_body(&response);
    let is_judged = is_refusal || (status == 200 && is_small);
    if !is_judged {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let (bytes, passes) = match body.bytes().await {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let passes = match is_refusal {
                true => REFUSALS.iter().any(|name| text.contains(name)),
                false => is_broken(&text),
            };
            (bytes, passes)
        }
        Err(e) if is_refusal => return Err(e),
        Err(e) => (Bytes::from(format!("the body of the answer broke off: {e}")), true),
    };
    if passes {
        parts.status = StatusCode::SERVICE_UNAVAILABLE;
        parts.headers.remove("content-length");
    }
    Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(bytes)))
}

/// Whether the answer of a listing is an error, or was cut short.
fn is_broken(text: &str) -> bool {
    let text = text.trim();
    let Some(root) = root(text) else {
        return text.is_empty();
    };
    let is_empty = || text.ends_with("/>") && text.matches('<').count() == 1 + text.matches("<?").count();
    let is_closed = || text.ends_with(&format!("</{root}>")) || is_empty();
    root == "Error" || (ROOTS.contains(&root) && !is_closed())
}

/// The name of an XML document's root element.
fn root(text: &str) -> Option<&str> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let text = match text.strip_prefix("<?") {
        Some(declaration) => declaration.split_once("?>")?.1.trim_start(),
        None => text,
    };
    let rest = text.strip_prefix('<')?;
    rest.split(|c: char| c.is_whitespace() || c == '>' || c == '/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_and_deletions_are_read_whole() {
        for (method, query, expected) in [
            ("GET", Some("list-type=2&prefix=t"), true),
            ("GET", Some("restype=container&comp=list"), true),
            ("POST", Some("delete"), true),
            ("GET", Some("prefix=list-type=2"), false),
            ("GET", None, false),
            ("PUT", Some("list-type=2"), false),
            ("POST", Some("uploads"), false),
        ] {
            assert_eq!(has_small_answer(method, query), expected, "{method} {query:?}");
        }
    }

    #[test]
    fn answers_that_were_cut_or_hold_an_error_are_broken() {
        let whole = r#"<?xml version="1.0"?><ListBucketResult xmlns="x"><Key>a</Key></ListBucketResult>"#;
        for end in 1..whole.len() {
            let declared = whole.find("?>").map_or(0, |index| index + 2);
            // A document that ends within its declaration has no root yet: the parser refuses it.
            let expected = end > declared + "<ListBucketResult".len();
            assert!(is_broken(&whole[..end]) || !expected, "{end}");
        }
        for (text, expected) in [
            (whole, false),
            ("", true),
            ("<Error><Code>SlowDown</Code></Error>", true),
            ("<?xml version='1.0'?>\n<Error><Code>InternalError</Code></Error>", true),
            ("<ListBucketResult/>", false),
            ("<EnumerationResults><Blobs/>", true),
            ("<DeleteResult><Error><Key>k</Key></Error></DeleteResult>", false),
            ("<!DOCTYPE html><html></html>", false),
            ("{}", false),
        ] {
            assert_eq!(is_broken(text), expected, "{text}");
        }
    }
}

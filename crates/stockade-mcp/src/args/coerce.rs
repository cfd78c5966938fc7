//! Reads a JSON value as what was meant by it, or not at all.

use std::collections::BTreeMap;

use serde_json::Value;

use super::TextOrList;

/// What a value is, for a refusal.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            let short: String = text.chars().take(40).collect();
            format!("the text {short:?}")
        }
        Value::Array(items) => describe_list(items),
        Value::Object(entries) => describe_object(entries),
    }
}

/// A list, and which of its items is no text.
fn describe_list(items: &[Value]) -> String {
    match items.iter().position(|item| !is_plain(item)) {
        Some(at) => format!("a list whose item {} is {}", at + 1, kind(&items[at])),
        None => "a list".to_owned(),
    }
}

/// An object, and which of its entries cannot be a name and a text.
fn describe_object(entries: &serde_json::Map<String, Value>) -> String {
    let is_bad = |(name, value): &(&String, &Value)| {
        !good_name(name) || !(value.is_null() || is_plain(value))
    };
    match entries.iter().find(is_bad) {
        None => "an object".to_owned(),
        Some((name, _)) if name.is_empty() => "an object with an empty name".to_owned(),
        Some((name, value)) => {
            let short: String = name.chars().take(40).collect();
            match good_name(name) {
                true => format!("an object whose {short:?} is {}", kind(value)),
                false => format!("an object with the name {short:?}, which has = or NUL in it"),
            }
        }
    }
}

fn is_plain(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

pub(super) fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

pub(super) fn number(value: Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    number.is_finite().then_some(number)
}

pub(super) fn integer(value: Value) -> Option<u64> {
    if let Some(exact) = value.as_u64() {
        return Some(exact);
    }
    if let Some(exact) = value.as_str().and_then(|text| text.trim().parse().ok()) {
        return Some(exact);
    }
    let number = number(value)?;
    // Above 2^53 a float no longer says which integer was meant.
    let whole = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative and below 2^53 by the check above"
    )]
    whole.then_some(number as u64)
}

pub(super) fn flag(value: Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(flag),
        Value::Number(number) => match number.as_u64()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" | "" => Some(false),
            _ => None,
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

pub(super) fn text_or_list(value: Value) -> Option<TextOrList> {
    match value {
        Value::Array(items) => list(items).map(TextOrList::List),
        Value::String(written) => Some(match encoded_list(&written) {
            Some(items) => TextOrList::List(items),
            None => TextOrList::Text(written),
        }),
        other => text(other).map(TextOrList::Text),
    }
}

pub(super) fn words(value: Value) -> Option<Vec<String>> {
    match text_or_list(value)? {
        TextOrList::List(items) => Some(items),
        TextOrList::Text(text) => split_words(&text),
    }
}

pub(super) fn packages(value: Value) -> Option<Vec<String>> {
    if value.is_number() || value.is_boolean() {
        return None;
    }
    Some(match text_or_list(value)? {
        TextOrList::List(items) => items,
        TextOrList::Text(text) => split_packages(&text),
    })
}

pub(super) fn dictionary(value: Value) -> Option<BTreeMap<String, String>> {
    match value {
        Value::Object(entries) => entries
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| good_name(&name).then_some((name, text(value)?)))
            .collect(),
        Value::Array(items) => list(items)?.iter().map(|item| assignment(item)).collect(),
        Value::String(written) => match serde_json::from_str(&written) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => dictionary(value),
            _ if written.trim().is_empty() => Some(BTreeMap::new()),
            _ => written.lines().filter(|line| !line.trim().is_empty()).map(assignment).collect(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn assignment(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    good_name(name.trim()).then(|| (name.trim().to_owned(), value.to_owned()))
}

fn good_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn list(items: Vec<Value>) -> Option<Vec<String>> {
    items.into_iter().map(text).collect()
}

fn encoded_list(written: &str) -> Option<Vec<String>> {
    if !written.trim_start().starts_with('[') {
        return None;
    }
    serde_json::from_str::<Vec<Value>>(written).ok().and_then(list)
}

/// Splits at white space, and at commas that do not continue a version range.
fn split_packages(text: &str) -> Vec<String> {
    let mut packages: Vec<String> = Vec::new();
    for part in text.split(|c: char| c == ',' || c.is_whitespace()).filter(|part| !part.is_empty())
    {
        match packages.last_mut() {
            Some(last) if part.starts_with(['<', '>', '=', '!', '~']) => {
                if last.contains(['<', '>', '=', '!', '~']) {
                    last.push(',');
                }
                last.push_str(part);
            }
            _ => packages.push(part.to_owned()),
        }
    }
    packages
}

/// Splits a text into words as a shell does, with quotes and backslashes and nothing else.
fn split_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().push(chars.next()?),
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_come_in_many_forms() {
        for (value, expected) in [
            (json!(30), Some(30.0)),
            (json!("30"), Some(30.0)),
            (json!(" 2.5 "), Some(2.5)),
            (json!(-1), Some(-1.0)),
            (json!("NaN"), None),
            (json!("inf"), None),
            (json!("1e400"), None),
            (json!("thirty"), None),
            (json!(""), None),
            (json!(true), None),
            (json!([30]), None),
        ] {
            assert_eq!(number(value.clone()), expected, "{value}");
        }
    }

    #[test]
    fn integers_are_exact_or_refused() {
        for (value, expected) in [
            (json!(3), Some(3)),
            (json!("3"), Some(3)),
            (json!(3.0), Some(3)),
            (json!("3.0"), Some(3)),
            (json!(u64::MAX), Some(u64::MAX)),
            (json!(3.5), None),
            (json!(-1), None),
            (json!("-1"), None),
            (json!(1e300), None),
            (json!("18446744073709551616"), None),
        ] {
            assert_eq!(integer(value.clone()), expected, "{value}");
        }
    }

    #[test]
    fn flags_come_in_many_forms() {
        for (value, expected) in [
            (json!(true), Some(true)),
            (json!("True"), Some(true)),
            (json!("no"), Some(false)),
            (json!(1), Some(true)),
            (json!(2), None),
            (json!("perhaps"), None),
            (json!({}), None),
        ] {
            assert_eq!(flag(value.clone()), expected, "{value}");
        }
    }

    #[test]
    fn commands_are_texts_or_lists_or_lists_in_texts() {
        let text = |text: &str| Some(TextOrList::Text(text.to_owned()));
        let list = |items: &[&str]| {
            Some(TextOrList::List(items.iter().map(|&item| item.to_owned()).collect()))
        };
        for (value, expected) in [
            (json!("ls -la"), text("ls -la")),
            (json!(["ls", "-la"]), list(&["ls", "-la"])),
            (json!("[\"ls\", \"-la\"]"), list(&["ls", "-la"])),
            (json!(["sleep", 1, true]), list(&["sleep", "1", "true"])),
            (json!("[ -f x ] && echo y"), text("[ -f x ] && echo y")),
            (json!([["ls"]]), None),
            (json!({ "cmd": "ls" }), None),
        ] {
            assert_eq!(text_or_list(value.clone()), expected, "{value}");
        }
    }

    #[test]
    fn words_split_as_in_a_shell() {
        for (value, expected) in [
            (json!("a  b"), Some(vec!["a", "b"])),
            (json!("'a b' \"c \\\" d\" e\\ f ''"), Some(vec!["a b", "c \" d", "e f", ""])),
            (json!("x'y'z"), Some(vec!["xyz"])),
            (json!(""), Some(vec![])),
            (json!("[\"a b\"]"), Some(vec!["a b"])),
            (json!(["a b", 2]), Some(vec!["a b", "2"])),
            (json!(7), Some(vec!["7"])),
            (json!("'open"), None),
            (json!("back\\"), None),
        ] {
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect());
            assert_eq!(words(value.clone()), expected, "{value}");
        }
    }

    #[test]
    fn packages_split_without_breaking_version_ranges() {
        for (value, expected) in [
            (json!("pandas numpy"), vec!["pandas", "numpy"]),
            (json!("pandas, numpy"), vec!["pandas", "numpy"]),
            (json!("numpy>=1.20,<2 requests"), vec!["numpy>=1.20,<2", "requests"]),
            (json!("numpy >=1.20"), vec!["numpy>=1.20"]),
            (json!(["a==1"]), vec!["a==1"]),
            (json!("[\"a\", \"b\"]"), vec!["a", "b"]),
            (json!("@scope/name@1.2"), vec!["@scope/name@1.2"]),
            (json!(""), vec![]),
        ] {
            assert_eq!(packages(value.clone()).unwrap(), expected, "{value}");
        }
        assert_eq!(packages(json!(3)), None);
    }

    #[test]
    fn dictionaries_come_in_many_forms() {
        let expected = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for value in [
            json!({ "A": "1", "B": null }),
            json!({ "A": 1 }),
            json!("{\"A\": 1}"),
            json!(["A=1"]),
            json!("A=1"),
        ] {
            assert_eq!(dictionary(value.clone()), Some(expected.clone()), "{value}");
        }
        for value in [json!({ "": "1" }), json!({ "A=B": "1" }), json!({ "A": [] }), json!(3)] {
            assert_eq!(dictionary(value.clone()), None, "{value}");
        }
    }
}

//! What tools say of their arguments, in words that every validator knows, and how their integers are read.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};
use serde_json::{Number, Value};

/// The first integer that does not fit 64 bits: 2^64.
const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;
/// 2^53: from here on a double is the nearest to several integers.
const SHARED_MIN: f64 = 9_007_199_254_740_992.0;

/// The integer that a number is. JSON Schema takes `10.0` and `1e1` for integers, so some clients write them so.
///
/// # Errors
/// If the number is none from 0 to 2^64 - 1, or is a double whose shortest form is another integer than the double:
/// 1234567890123456800.0 is read as 1234567890123456768. Ask for plain digits. A message is refused before if a number in it has
/// other digits than its double in the shortest form or with 17 digits. So what is returned here is what the message says.
pub(crate) fn integer(number: &Number) -> Result<u64, String> {
    if let Some(integer) = number.as_u64() {
        return Ok(integer);
    }
    let double = number.as_f64().unwrap_or(f64::NAN);
    if double.fract() != 0.0 || !(0.0..TOO_LARGE).contains(&double) {
        return Err(format!("{number} is no integer from 0 to 2^64 - 1"));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is an integer within the bounds"
    )]
    let integer = double as u64;
    if double >= SHARED_MIN && double.to_string() != integer.to_string() {
        return Err(format!(
            "{number} is read as the integer {integer}: write the integer in plain digits, without a fraction or an exponent"
        ));
    }
    Ok(integer)
}

/// Makes every integer of the tool's arguments one that is written as an integer, where the schema says so.
pub(crate) fn whole(arguments: &mut JsonObject, schema: &JsonObject) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, value) in arguments {
        let wanted = properties.and_then(|properties| properties.get(name));
        if wanted.is_some_and(is_integer)
            && let Value::Number(number) = value
            && let Ok(integer) = integer(number)
        {
            *value = integer.into();
        }
    }
}

fn is_integer(schema: &Value) -> bool {
    match &schema["type"] {
        Value::Array(types) => types.iter().any(|one| one == "integer"),
        one => one == "integer",
    }
}

/// The tool, its schemas without the formats that `schemars` makes up for Rust's types: a strict validator refuses those.
pub(crate) fn plain(mut tool: Tool) -> Tool {
    tool.input_schema = stripped(&tool.input_schema);
    tool.output_schema = tool.output_schema.as_deref().map(stripped);
    tool
}

fn stripped(schema: &JsonObject) -> Arc<JsonObject> {
    let mut schema = Value::Object(schema.clone());
    without_formats(&mut schema);
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => unreachable!("it was an object"),
    }
}

/// Formats of numbers. JSON Schema has formats for strings alone.
fn without_formats(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_formats),
        Value::Object(members) => {
            if members.contains_key("type") {
                members.retain(|name, value| name != "format" || !is_of_a_number(value));
            }
            members.values_mut().for_each(without_formats);
        }
        _ => {}
    }
}

fn is_of_a_number(format: &Value) -> bool {
    let format = format.as_str().unwrap_or_default();
    let is_sized = |kind: &str| {
        let bits = format.strip_prefix(kind);
        bits.is_some_and(|bits| bits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    is_sized("uint") || is_sized("int") || matches!(format, "float" | "double")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_integer_may_be_written_as_a_double() {
        let read = |text: &str| integer(&serde_json::from_str(text).expect("it is a number")).ok();
        for (text, expected) in [
            ("10", Some(10)),
            ("10.0", Some(10)),
            ("1e1", Some(10)),
            ("0.0", Some(0)),
            ("-0.0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("10.5", None),
            ("-1", None),
            ("-1.0", None),
            ("9007199254740992.0", Some(1 << 53)),
            ("1e18", Some(1_000_000_000_000_000_000)),
            ("1e19", Some(10_000_000_000_000_000_000)),
            ("9007199254740994.0", Some((1 << 53) + 2)),
            ("1.8014398509481984e16", Some(1 << 54)),
            ("1.8e19", Some(18_000_000_000_000_000_000)),
            // Each is read as a double with other digits.
            ("1234567890123456800.0", None),
            ("1.2345678901234568e18", None),
            ("123456789012345680e1", None),
            ("3.602879701896397e16", None),
            ("1152921504606847000.0", None),
            ("18446744073709549568.0", None),
            ("18446744073709551616.0", None),
            ("1e20", None),
            ("1e300", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn refusal_of_a_rounded_integer_names_what_would_be_read() {
        let number = serde_json::from_str("1.2345678901234568e18").expect("it is a number");
        let refused = integer(&number).expect_err("it is another integer");
        assert!(refused.contains("1234567890123456768"), "{refused}");
        assert!(refused.contains("plain digits"), "{refused}");
    }

    #[test]
    fn arguments_are_made_whole_where_the_schema_wants_integers() {
        let schema = json!({"properties": {
            "a": {"type": "integer"}, "b": {"type": ["integer", "null"]}, "c": {"type": "number"},
            "e": {"type": "integer"},
        }});
        let sent =
            json!({"a": 10.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 1.234_567_890_123_456_8e18});
        let Value::Object(mut arguments) = sent else {
            unreachable!("it is an object")
        };
        whole(&mut arguments, schema.as_object().expect("it is one"));
        assert_eq!(
            Value::from(arguments),
            json!({"a": 10, "b": 2, "c": 3.0, "d": 4.0, "e": 1.234_567_890_123_456_8e18}),
            "what is rounded is left to the tool, which refuses it"
        );
    }
}

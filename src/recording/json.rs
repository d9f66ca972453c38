// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that are JSON, with limits: a short text may describe many objects, and each takes memory.

use serde::de::DeserializeOwned;
use serde_json::{Value, from_value};

use super::error::Damage;
use super::meta::LedgerInfo;

/// Most objects of a block.
const MOST_OBJECTS: usize = 1 << 15;
/// Largest count of a ledger.
const MOST: u64 = 1 << 50;
/// Most values of a block, by the commas between them.
const MOST_VALUES: usize = 1 << 19;

/// Reads a block.
///
/// # Errors
/// If it does not have the form of its kind, or has too many values.
pub fn parse<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Damage> {
    let count = |byte: u8| payload.iter().filter(|&&b| b == byte).count();
    // also counts brackets within texts; no block has so many
    if count(b'{') > MOST_OBJECTS || count(b',') > MOST_VALUES || count(b'[') > MOST_VALUES {
        return Err(Damage::Length);
    }
    serde_json::from_slice(payload)
        .map_err(|_| Damage::Content("a block does not have the form of its kind"))
}

/// Reads a ledger. One that does not have the form of its kind is left out. Its counts are added up later, so those that no run reaches are made smaller.
///
/// # Errors
/// As [`parse`].
pub fn ledger<L: DeserializeOwned>(payload: &[u8]) -> Result<LedgerInfo<L>, Damage> {
    let LedgerInfo { at_ns, evicted, ledger } = parse(payload)?;
    let of_value = |mut value: Value| {
        bound(&mut value);
        from_value(value).ok()
    };
    Ok(LedgerInfo { at_ns, evicted, ledger: ledger.and_then(of_value) })
}

/// Makes numbers beyond [`MOST`] smaller. The reader of JSON limits the depth.
fn bound(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if number.as_u64().is_some_and(|n| n > MOST) {
                *value = MOST.into();
            } else if number.as_i64().is_some_and(|n| n < -MOST.cast_signed()) {
                *value = (-MOST.cast_signed()).into();
            }
        }
        Value::Array(all) => all.iter_mut().for_each(bound),
        Value::Object(all) => all.values_mut().for_each(bound),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ledger::Ledger;
    use crate::recording::StackInfo;

    #[test]
    fn counts_that_no_run_reaches_are_bounded() {
        let text =
            r#"{"at_ns":5,"ledger":{"a":18446744073709551615,"b":[7,-9223372036854775808]}}"#;
        let info = ledger::<Value>(text.as_bytes()).unwrap();
        let most = MOST.cast_signed();
        let bounded = serde_json::json!({"a": most, "b": [7, -most]});
        assert_eq!(info.ledger, Some(bounded));
    }

    #[test]
    fn a_ledger_of_another_form_is_left_out_and_the_rest_is_read() {
        for (text, seen) in [
            (r#"{"at_ns":5,"ledger":{"seen":7,"later":{}}}"#, Some(7)),
            (r#"{"at_ns":5,"ledger":{"seen":"many"}}"#, None),
            (r#"{"at_ns":5,"ledger":null}"#, None),
            (r#"{"at_ns":5}"#, None),
        ] {
            let info = ledger::<Ledger>(text.as_bytes()).unwrap();
            assert_eq!((info.at_ns, info.ledger.map(|l| l.seen)), (5, seen));
        }
    }

    #[test]
    fn a_block_of_more_objects_than_a_machine_has_is_refused() {
        let of = |n: usize| format!("[{}]", vec!["{}"; n].join(","));
        assert!(parse::<Vec<StackInfo>>(of(MOST_OBJECTS).as_bytes()).is_ok());
        let more = parse::<Vec<StackInfo>>(of(MOST_OBJECTS + 1).as_bytes());
        assert_eq!(more, Err(Damage::Length));
        let zeroes = format!("[{}]", vec!["0"; MOST_VALUES + 2].join(","));
        assert_eq!(parse::<Value>(zeroes.as_bytes()), Err(Damage::Length));
        let deep = "[".repeat(MOST_VALUES + 1);
        assert_eq!(parse::<Value>(deep.as_bytes()), Err(Damage::Length));
    }
}

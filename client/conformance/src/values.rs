//! Values come back as they were stored, or are refused.

use helve_client::{Error, ErrorKind, StateTool, exact::DEPTH_MAX};
use serde_json::{Map, Value, json};

use crate::tool::ToolSetup;

/// Doubles in one value. Of as many, a parser that rounds changes one in eight.
const DOUBLES: usize = 2_000;
/// Values of all kinds.
const VALUES: usize = 100;

/// The same values in every run: what fails once fails again.
struct Draws(u64);

impl Draws {
    /// `SplitMix64`.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn double(&mut self) -> f64 {
        loop {
            let double = f64::from_bits(self.next());
            if double.is_finite() {
                return double;
            }
        }
    }

    /// Some characters of those that are written with escapes or several bytes.
    fn text(&mut self) -> String {
        const CHARACTERS: [char; 12] = [
            '\0',
            '\u{1f}',
            '"',
            '\\',
            '/',
            'a',
            '\u{7f}',
            '\u{e9}',
            '\u{2028}',
            '\u{feff}',
            '\u{ffff}',
            '\u{1f600}',
        ];
        let count = self.next() % 6;
        (0..count)
            .map(|_| CHARACTERS[usize::try_from(self.next() % 12).unwrap_or(0)])
            .collect()
    }

    fn value(&mut self, depth: u32) -> Value {
        let kinds = if depth == 0 { 7 } else { 9 };
        match self.next() % kinds {
            0 => Value::Null,
            1 => Value::from(self.next().is_multiple_of(2)),
            2 => Value::from(self.next()),
            3 => Value::from(self.next().cast_signed()),
            4 => Value::from(self.double()),
            // An integer that is written as a double.
            5 => Value::from(f64::from(i32::from_le_bytes(
                self.next().to_le_bytes()[..4]
                    .try_into()
                    .unwrap_or_default(),
            ))),
            6 => Value::from(self.text()),
            7 => (0..self.next() % 5)
                .map(|_| self.value(depth - 1))
                .collect(),
            _ => {
                let count = self.next() % 5;
                let members = (0..count).map(|_| (self.text(), self.value(depth - 1)));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}

/// As text, so that 1 is not 1.0, nor 0.0 the same as -0.0.
async fn comes_back(tool: &dyn StateTool, value: &Value) -> Result<(), Error> {
    tool.store("exact", value).await?;
    let back = tool.retrieve("exact").await?;
    assert_eq!(back.map(|back| back.to_string()), Some(value.to_string()));
    Ok(())
}

pub(super) async fn every_double_comes_back_to_the_bit(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let mut draws = Draws(1);
    let mut doubles = vec![
        117.633_313_911_400_17,
        -0.0,
        1.0,
        5e-324,
        f64::MIN_POSITIVE,
        f64::MAX,
        1e16,
        1e20,
    ];
    doubles.extend((0..DOUBLES).map(|_| draws.double()));
    comes_back(&*tool, &json!(doubles)).await
}

pub(super) async fn every_value_comes_back_as_it_is(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let mut draws = Draws(2);
    for value in [
        json!(u64::MAX),
        json!(i64::MIN),
        json!("\0"),
        json!({"": {"\0": []}}),
    ] {
        comes_back(&*tool, &value).await?;
    }
    let values: Vec<Value> = (0..VALUES).map(|_| draws.value(4)).collect();
    comes_back(&*tool, &json!(values)).await?;
    let items: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(at, value)| (format!("exact/{at}"), value.clone()))
        .collect();
    tool.batch_store(&items).await?;
    let keys: Vec<_> = items.iter().map(|(key, _)| key.clone()).collect();
    let back = tool.batch_retrieve(&keys).await?;
    for (back, value) in back.iter().zip(&values) {
        assert_eq!(back.as_ref().map(Value::to_string), Some(value.to_string()));
    }
    Ok(())
}

pub(super) async fn what_is_too_deep_to_be_read_again_is_refused(
    setup: ToolSetup,
) -> Result<(), Error> {
    let tool = setup.tool(0);
    let nested = |levels: usize| (1..levels).fold(json!([]), |inner, _| json!([inner]));
    let deepest = nested(DEPTH_MAX);
    comes_back(&*tool, &deepest).await?;
    let items = [("exact".to_owned(), deepest.clone())];
    tool.batch_store(&items).await?;
    assert_eq!(tool.retrieve("exact").await?, Some(deepest.clone()));
    let deeper = nested(DEPTH_MAX + 1);
    let batch = [("exact".to_owned(), deeper.clone())];
    for refused in [
        tool.store("exact", &deeper).await,
        tool.batch_store(&batch).await,
    ] {
        let kind = refused.err().map(|error| error.kind());
        assert_eq!(kind, Some(ErrorKind::Codec));
    }
    assert_eq!(tool.retrieve("exact").await?, Some(deepest));
    Ok(())
}

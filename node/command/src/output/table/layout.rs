//! How wide the columns of a table are, and which are left out, so that it fits its terminal and breaks no word.

/// Blanks around each cell.
pub(super) const PADDING: u16 = 2;

/// How wide the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure {
    /// The longest word: a column that is narrower breaks it.
    pub(super) word: u16,
    /// The longest cell.
    pub(super) cell: u16,
}

/// Returns the number and the width of each column that is shown. `optional` are the numbers of those that may be left out, the least
/// important first: as few are left out as it takes to break no word. If it takes more than those, all of them are left out, and the
/// widest words are broken.
pub(super) fn fit(columns: &[Measure], optional: &[usize], width: u16) -> Vec<(usize, u16)> {
    let without = |count: usize| -> Vec<usize> {
        let left_out = &optional[..count];
        let all = 0..columns.len();
        all.filter(|number| !left_out.contains(number)).collect()
    };
    let least = |shown: &[usize]| -> Vec<u16> {
        shown
            .iter()
            .map(|number| columns[*number].word.min(width))
            .collect()
    };
    let fitting = (0..=optional.len())
        .map(without)
        .find(|shown| total(&least(shown)) <= u32::from(width));
    let (shown, mut widths) = match fitting {
        Some(shown) => {
            let mut widths = least(&shown);
            widen(&mut widths, width, |at| columns[shown[at]].cell);
            (shown, widths)
        }
        None => {
            let shown = without(optional.len());
            let widths = least(&shown);
            (shown, widths)
        }
    };
    narrow(&mut widths, width);
    shown.into_iter().zip(widths).collect()
}

/// Columns that a table with columns of these widths takes up: the blank behind the last one is not printed.
fn total(widths: &[u16]) -> u32 {
    let padded = widths
        .iter()
        .map(|width| u32::from(*width) + u32::from(PADDING));
    padded.sum::<u32>().saturating_sub(1)
}

/// Gives what is left of the width to the columns whose cells lack the most.
fn widen(widths: &mut [u16], width: u16, cell: impl Fn(usize) -> u16) {
    let mut spare = u32::from(width).saturating_sub(total(widths));
    while spare > 0 {
        let lacking = |at: usize, has: u16| cell(at).saturating_sub(has);
        let neediest = widths
            .iter()
            .enumerate()
            .map(|(at, has)| (lacking(at, *has), at));
        let Some((1.., at)) = neediest.max() else {
            return;
        };
        widths[at] += 1;
        spare -= 1;
    }
}

/// Takes from the widest columns until they fit; each keeps one sign.
fn narrow(widths: &mut [u16], width: u16) {
    while total(widths) > u32::from(width) {
        let widest = widths.iter_mut().max().filter(|widest| **widest > 1);
        let Some(widest) = widest else {
            return;
        };
        *widest -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures(columns: &[(u16, u16)]) -> Vec<Measure> {
        let measure = |&(word, cell): &(u16, u16)| Measure { word, cell };
        columns.iter().map(measure).collect()
    }

    #[test]
    fn table_that_fits_is_as_wide_as_its_cells() {
        let columns = measures(&[(3, 8), (5, 5)]);
        assert_eq!(fit(&columns, &[0], 80), [(0, 8), (1, 5)]);
        // With its blanks, to the last sign.
        assert_eq!(fit(&columns, &[0], 16), [(0, 8), (1, 5)]);
    }

    #[test]
    fn cells_are_wrapped_before_a_column_is_left_out() {
        let columns = measures(&[(3, 8), (5, 5)]);
        assert_eq!(fit(&columns, &[0], 15), [(0, 7), (1, 5)]);
        assert_eq!(fit(&columns, &[0], 11), [(0, 3), (1, 5)]);
        assert_eq!(fit(&columns, &[0], 10), [(1, 5)]);
    }

    #[test]
    fn as_few_columns_are_left_out_as_it_takes() {
        let columns = measures(&[(10, 10), (4, 4), (10, 10), (4, 4)]);
        let numbers = |width| -> Vec<usize> {
            let shown = fit(&columns, &[3, 1], width);
            shown.into_iter().map(|(number, _)| number).collect()
        };
        assert_eq!(numbers(35), [0, 1, 2, 3]);
        assert_eq!(numbers(34), [0, 1, 2]);
        assert_eq!(numbers(28), [0, 2]);
    }

    #[test]
    fn word_that_no_terminal_has_room_for_is_broken_and_no_other() {
        let columns = measures(&[(300, 300), (7, 7), (4, 4)]);
        assert_eq!(fit(&columns, &[2], 80), [(0, 70), (1, 7)]);
        assert_eq!(fit(&columns, &[], 80), [(0, 64), (1, 7), (2, 4)]);
        assert_eq!(fit(&columns, &[], 1), [(0, 1), (1, 1), (2, 1)]);
        assert!(fit(&[], &[], 80).is_empty());
    }
}

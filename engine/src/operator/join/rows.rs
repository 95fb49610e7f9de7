//! The rows of one key and one side.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A row that waits for partners.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row<V> {
    pub time: Timestamp,
    /// Whether it has had a partner.
    pub matched: bool,
    pub value: V,
}

/// Rows in order of time, those of one time in order of arrival. Most keys have one row at a time: it
/// lies here, and only where there were more of them they have memory of their own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Rows<V> {
    Few(Option<Row<V>>),
    #[expect(clippy::box_collection, reason = "what few keys have makes the others no larger")]
    Many(Box<VecDeque<Row<V>>>),
}

impl<V> Default for Rows<V> {
    fn default() -> Self {
        Rows::Few(None)
    }
}

impl<V> Rows<V> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Rows::Few(row) => row.is_none(),
            Rows::Many(rows) => rows.is_empty(),
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, row: Row<V>) {
        match self {
            Rows::Few(place @ None) => *place = Some(row),
            _ => self.insert_among(row),
        }
    }

    fn insert_among(&mut self, row: Row<V>) {
        if let Rows::Few(first) = self {
            *self = Rows::Many(Box::new(first.take().into_iter().collect()));
        }
        let Rows::Many(rows) = self else { unreachable!("there is room for many") };
        if rows.back().is_none_or(|last| last.time <= row.time) {
            rows.push_back(row);
        } else {
            rows.insert(rows.partition_point(|other| other.time <= row.time), row);
        }
    }

    /// Takes out the earliest row.
    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<Row<V>> {
        match self {
            Rows::Few(row) => row.take(),
            Rows::Many(rows) => rows.pop_front(),
        }
    }

    /// Shows the rows from `from` to `to`, both included, in order.
    #[inline]
    pub(super) fn between(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        mut f: impl FnMut(&mut Row<V>),
    ) {
        match self {
            Rows::Few(row) => {
                if let Some(row) = row.as_mut().filter(|row| from <= row.time && row.time <= to) {
                    f(row);
                }
            }
            Rows::Many(rows) => {
                let first = rows.partition_point(|row| row.time < from);
                rows.range_mut(first..).take_while(|row| row.time <= to).for_each(f);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_alone_takes_no_more_room_than_its_own() {
        assert_eq!(size_of::<Rows<[u64; 2]>>(), size_of::<Row<[u64; 2]>>());
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_list(steps in prop::collection::vec((0_u8..4, 0_i64..9), 0..60)) {
            let (mut rows, mut list) = (Rows::default(), Vec::new());
            for (value, (action, time)) in steps.into_iter().enumerate() {
                let time = Timestamp::from_micros(time);
                if action == 0 {
                    let expected = (!list.is_empty()).then(|| list.remove(0));
                    prop_assert_eq!(rows.pop_front(), expected);
                } else {
                    let row = Row { time, matched: false, value };
                    list.push(row.clone());
                    list.sort_by_key(|row| row.time);
                    rows.insert(row);
                }
                prop_assert_eq!(rows.is_empty(), list.is_empty());
                let to = time + std::time::Duration::from_micros(3);
                let mut seen = Vec::new();
                rows.between(time, to, |row| seen.push(row.value));
                let between = list.iter().filter(|row| time <= row.time && row.time <= to);
                prop_assert_eq!(seen, between.map(|row| row.value).collect::<Vec<_>>());
            }
        }
    }
}

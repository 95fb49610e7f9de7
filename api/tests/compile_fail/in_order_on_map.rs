use mizzle::time::Timestamp;
use mizzle::{Query, source};

fn main() {
    let query = Query::new("wrong");
    let numbers = query.source("numbers", source::from_iter(0..3i64, |&n| Timestamp::from_secs(n)));
    numbers.map(|n| n + 1).in_order().for_each(drop);
}

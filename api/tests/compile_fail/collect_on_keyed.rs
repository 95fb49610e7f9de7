use mizzle::time::Timestamp;
use mizzle::{Query, source};

fn main() {
    let query = Query::new("wrong");
    let numbers = query.source("numbers", source::from_iter(0..3i64, |&n| Timestamp::from_secs(n)));
    let _ = numbers.key_by(|n| n % 2).collect();
}

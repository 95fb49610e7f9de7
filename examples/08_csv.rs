//! CSV in and CSV out. A line that cannot be read is counted and handed out, and stops nothing.

use std::error::Error;
use std::fs;

use mizzle::time::Timestamp;
use mizzle::{Engine, Query, Status, sink, source};
use serde::{Deserialize, Serialize};

const ORDERS: &str = "\
second,item,price,pieces
1,tea,2.50,4
2,coffee,cheap,1
3,cake,3.00
4,cake,3.00,2
";

#[derive(Deserialize)]
struct Order {
    second: i64,
    item: String,
    price: f64,
    pieces: u32,
}

#[derive(Serialize)]
struct Bill {
    item: String,
    total: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("mizzle-08-csv-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let (orders, bills) = (folder.join("orders.csv"), folder.join("bills.csv"));
    fs::write(&orders, ORDERS)?;

    let query = Query::new("bills");
    let file = source::csv_file(&orders, |order: &Order| Timestamp::from_secs(order.second))?;
    let (good, bad) = query.source_with_rejects("orders", file);
    good.map(|order| Bill { total: order.price * f64::from(order.pieces), item: order.item })
        .sink(sink::csv_file(&bills)?);
    let bad = bad.map(|line| format!("line {}: {}", line.line, line.reason)).collect();

    let engine = Engine::new()?;
    let handle = engine.submit(query)?;
    assert_eq!(handle.wait(), Status::Completed);

    let written = fs::read_to_string(&bills)?;
    fs::remove_dir_all(&folder)?;
    println!("{written}");
    for line in bad.values() {
        println!("{line}");
    }
    assert_eq!(written, "item,total\ntea,10.0\ncake,6.0\n");
    assert_eq!(bad.values()[0], "line 3: field `price`: invalid float literal");
    assert_eq!(bad.values()[1], "line 4: 3 fields where there should be 4");
    assert_eq!(handle.chains().iter().map(|chain| chain.stats.rejected).sum::<u64>(), 2);
    Ok(())
}

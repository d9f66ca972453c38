//! tmp
use nvme_deep::abi;
use nvme_deep::path::stage::Cut;
use nvme_deep::reorder::Reorder;
use nvme_deep::view::theme::Theme;
use nvme_deep::view::trace::*;
use std::hint::black_box;
fn main() {
    let n: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let mode = std::env::args().nth(2).unwrap();
    let mut rec = vec![0u8; 24 + 24 + 8 + 72 + 56];
    let w64 = |r: &mut Vec<u8>, at: usize, v: u64| r[at..at + 8].copy_from_slice(&v.to_ne_bytes());
    rec[0] = 4;
    rec[2] = 2;
    rec[3] = 0b101001;
    rec[4] = 1;
    rec[6] = 0x40;
    rec[20] = 1; // nsid
    rec[24 + 8 + 8 + 6] = 1; // known
    let mut r = Reorder::default();
    let mut view = TraceText::new(Theme { color: false }, false, Clock::Mono, Some(Cut::Cheap));
    let mut out = Vec::new();
    let base = 1_000_000_000_000u64;
    for batch in 0..n / 100 {
        for i in 0..100 {
            let t = base + (batch * 100 + i) * 10_000;
            w64(&mut rec, 8, t);
            w64(&mut rec, 48, t - 100_000); // setup_out
            let a = 56;
            for k in 0..6 {
                rec[a + 8 + 4 * k..a + 12 + 4 * k].copy_from_slice(&[0; 4]);
            }
            let slba = (i as u32 * 8).to_ne_bytes();
            rec[a + 8..a + 12].copy_from_slice(&slba);
            rec[a + 16] = 7;
            rec[a + 32..a + 35].copy_from_slice(b"fio");
            rec[a + 48..a + 50].copy_from_slice(&777u16.to_ne_bytes());
            rec[a + 52..a + 54].copy_from_slice(&777u16.to_ne_bytes());
            rec[a + 60..a + 62].copy_from_slice(&4096u16.to_ne_bytes());
            rec[a + 68] = 1;
            let tm = 128;
            w64(&mut rec, tm, t - 110_000);
            w64(&mut rec, tm + 24, t - 90_000);
            w64(&mut rec, tm + 40, t - 5_000);
            if mode == "none" {
                black_box(&rec);
                continue;
            }
            r.push(abi::event_time(&rec).unwrap_or(0), &rec);
        }
        if mode == "none" {
            continue;
        }
        r.release(u64::MAX, |bytes| {
            if mode == "push" {
                black_box(bytes);
                return;
            }
            let e = abi::event(bytes).unwrap();
            if mode == "decode" {
                black_box(&e);
                return;
            }
            let cx = Context {
                disk: "nvme0n1",
                ..Context::default()
            };
            view.event(&e, &cx, &mut out);
        });
        if batch == 0 {
            eprintln!(
                "{}",
                String::from_utf8_lossy(&out).lines().next().unwrap_or("")
            );
        }
        black_box(&out);
        out.clear();
    }
}

use std::io::Write;
use tollgate::format::{Finding, Scanner};
use tollgate::remux::{Remuxer, Target};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let bytes = std::fs::read(&a[1]).unwrap();
    let mut format = None;
    Scanner::new().feed(&bytes, &mut |f, _| {
        if let Finding::Format(f) = f {
            format = Some(f)
        }
    });
    let to = if a[2] == "ts" {
        Target::MpegTs
    } else {
        Target::Mp4
    };
    let times: usize = a.get(4).map_or(1, |t| t.parse().unwrap());
    let Some(mut r) = Remuxer::new(format.expect("format"), to, 1 << 21) else {
        eprintln!("NOREADER");
        std::process::exit(3)
    };
    let mut file = std::fs::File::create(&a[3]).unwrap();
    let mut out = Vec::new();
    for t in 0..times {
        if t > 0 {
            assert!(r.begin_anew(format.unwrap(), &mut out));
        }
        for piece in bytes.chunks(16384) {
            if let Err(f) = r.feed(piece, &mut out) {
                eprintln!("FAULT {}", f.0);
                break;
            }
            file.write_all(&out).unwrap();
            out.clear();
        }
    }
    if let Err(f) = r.finish(&mut out) {
        eprintln!("FAULT {}", f.0)
    }
    file.write_all(&out).unwrap();
    for l in r.left_out() {
        eprintln!("LEFT {l}")
    }
}

"""How a report looks: one sheet for screens in light and dark, for narrow ones, and for paper."""

from typing import Final

SHEET: Final = """
:root{color-scheme:light dark;--bg:#f7f8fa;--panel:#fff;--ink:#1b2027;--soft:#5d6875;--line:#e1e5ea;--band:#f6f8fa;
--accent:#2459c9;--done:#1a7f4b;--failed:#c0362c;--running:#2459c9;--awaiting:#7a48c6;--unknown:#b96a00;
--cancelled:#7c8794;--pending:#9aa5b1;--donebg:#e3f4ea;--failedbg:#fbe7e5;--runningbg:#e5edfc;--awaitingbg:#f0e8fb;
--unknownbg:#fdf0dc;--plainbg:#eef1f5}
@media(prefers-color-scheme:dark){:root{--bg:#12161b;--panel:#1a1f26;--ink:#e6eaef;--soft:#98a4b1;--line:#2c343e;
--band:#1f252d;--accent:#7ea6f7;--done:#4fc486;--failed:#f07a70;--running:#7ea6f7;--awaiting:#b795f0;--unknown:#f0ab4c;
--cancelled:#8d99a6;--pending:#6d7986;--donebg:#17352a;--failedbg:#3d2220;--runningbg:#1c2b47;--awaitingbg:#2d2342;
--unknownbg:#3b2c15;--plainbg:#262d36}}
*{box-sizing:border-box}
html{scroll-padding-top:3.2rem;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"Noto Sans CJK SC",sans-serif}
main,header,footer{max-width:1160px;margin:0 auto;padding:0 1.4rem}
header{padding-top:2.2rem}
h1{font-size:1.7rem;line-height:1.25;margin:.1rem 0 .7rem;overflow-wrap:anywhere;max-width:52rem;font-weight:650}
h2{font-size:1.15rem;margin:0 0 .9rem;font-weight:650}
h3{font-size:1rem;margin:0 0 .35rem;font-weight:500;overflow-wrap:anywhere}
p{margin:.35rem 0;overflow-wrap:anywhere}
a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}
.over{text-transform:uppercase;letter-spacing:.08em;font-size:.75rem;color:var(--soft);margin:0}
.soft{color:var(--soft)}.note{color:var(--soft);font-size:.9rem}.when{float:right;color:var(--soft);font-size:.85rem}
nav{position:sticky;top:0;z-index:2;background:var(--bg);border-bottom:1px solid var(--line);margin-top:1.2rem}
nav ul{max-width:1160px;margin:0 auto;padding:.45rem 1.4rem;list-style:none;display:flex;gap:1.1rem;overflow-x:auto;
white-space:nowrap;font-size:.88rem}
nav a{color:var(--soft)}
section{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:1.2rem 1.3rem;margin:1.1rem 0}
.facts{list-style:none;padding:0;margin:1.1rem 0 0;display:grid;grid-template-columns:repeat(auto-fill,minmax(128px,1fr));
gap:.6rem}
.facts li{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:.5rem .75rem}
.facts b{display:block;font-size:1.15rem;font-weight:600}.facts span{color:var(--soft);font-size:.8rem}
.pills{display:flex;flex-wrap:wrap;gap:.45rem;align-items:center}
.pill,.chip{display:inline-block;border-radius:99px;padding:.08rem .6rem;font-size:.82rem;background:var(--plainbg);
color:var(--soft);white-space:nowrap;max-width:100%;overflow:hidden;text-overflow:ellipsis;vertical-align:bottom}
.chip{border-radius:5px;padding:.03rem .42rem}.chip b{color:var(--ink);font-weight:600}
.pill.done,.pill.clean,.pill.applied-yes,.chip.done,.chip.added,.chip.accept{background:var(--donebg);color:var(--done)}
.pill.failed,.pill.violations,.chip.abort,.chip.removed{background:var(--failedbg);color:var(--failed)}
.pill.running,.pill.open,.chip.retry,.chip.changed,.chip.idempotent{background:var(--runningbg);color:var(--running)}
.pill.awaiting-confirmation,.chip.escalate{background:var(--awaitingbg);color:var(--awaiting)}
.pill.unknown-result,.pill.applied-maybe,.chip.reconcile,.chip.write,.chip.irreversible,.chip.replan-local,
.chip.replan-global{background:var(--unknownbg);color:var(--unknown)}
code,pre,.args dd{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
code{overflow-wrap:anywhere}time{white-space:nowrap}
pre{margin:.4rem 0;padding:.6rem .75rem;background:var(--plainbg);border-radius:6px;white-space:pre-wrap;
overflow-wrap:anywhere;max-height:26rem;overflow:auto}
pre.flat{margin:0;padding:0;background:none;max-height:none}
.scroll{overflow-x:auto;margin:.4rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th{text-align:left;font-weight:600;color:var(--soft);font-size:.8rem;padding:.3rem .7rem .3rem 0;border-bottom:1px solid
var(--line);white-space:nowrap}
td{padding:.38rem .7rem .38rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:break-word;
min-width:3.2rem}
tr:last-child td{border-bottom:0}.dense td{padding-top:.22rem;padding-bottom:.22rem;font-size:.86rem}
td:target,tr:has(:target),:target{background:var(--unknownbg)}
.ledger td:nth-child(5){min-width:12rem}.ledger td:nth-child(4){min-width:9rem}.ledger td:last-child{min-width:10rem}
.rows td:nth-child(3),.rows td:nth-child(4){min-width:13rem}
.bad td{color:var(--failed)}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--accent);overflow-wrap:anywhere}
td details{margin:0}td summary code{color:var(--ink)}
article{border-top:1px solid var(--line);padding:.8rem 0 .5rem}article:first-of-type{border-top:0;padding-top:0}
article ul{margin:.3rem 0;padding-left:1.2rem}
.factline{display:flex;flex-wrap:wrap;gap:.3rem}
dl.identity{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1.1rem;margin:.9rem 0}
dl.identity dt{color:var(--soft)}dl.identity dd{margin:0;overflow-wrap:anywhere}
dl.args{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.5rem 0;padding:.55rem .8rem;
background:var(--plainbg);border-radius:6px}
dl.args dt{color:var(--soft);font-size:.88rem;overflow-wrap:anywhere;max-width:14rem}dl.args dd{margin:0;min-width:0}
td dl.args{margin:0;padding:.2rem .5rem}
.verdict{font-size:1rem;border-left:4px solid var(--pending);padding-left:.8rem}
.verdict.clean{border-color:var(--done)}.verdict.violations{border-color:var(--failed)}.verdict.open{border-color:var(--running)}
.verb.approved,.verb.answered{color:var(--done)}.verb.rejected,.verb.expired{color:var(--failed)}
.replies{list-style:none;padding-left:0}
svg{display:block;max-width:none}
.gantt{width:100%;min-width:820px;height:auto}
.network{height:auto;max-width:none;margin:0 auto}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Noto Sans CJK SC",sans-serif;fill:var(--ink)}
svg .label{text-anchor:end}svg .axis{fill:var(--soft);text-anchor:middle;font-size:10.5px}svg .gapword{font-size:9.5px}
.band{fill:var(--band)}.tick{stroke:var(--line)}.gap{fill:var(--plainbg)}
.bar{fill:var(--pending)}a:hover .bar{opacity:.75}
.bar.call.done{fill:var(--done)}.bar.call.failed{fill:var(--failed)}.bar.call.unknown-result{fill:var(--unknown)}
.bar.call.cancelled{fill:var(--cancelled)}.bar.call{fill:var(--running)}
.bar.unknown{fill:url(#hatch-unknown)}.bar.probe{fill:var(--accent);opacity:.85}.bar.person{fill:var(--awaiting);opacity:.55}
.bar.backoff{fill:var(--cancelled);opacity:.45}.bar.replan{fill:var(--accent);opacity:.3}.bar.cooldown{fill:url(#hatch-cooldown)}
.bar.open{stroke:var(--ink);stroke-width:1;stroke-dasharray:3 2}
.ground.unknown{fill:var(--unknownbg)}.stripe.unknown{stroke:var(--unknown);stroke-width:2}
.ground.cooldown{fill:var(--runningbg)}.stripe.cooldown{stroke:var(--running);stroke-width:1.5}
.mark{stroke:var(--accent);stroke-dasharray:3 3}.flag{fill:var(--accent)}
.mark.owner_changed{stroke:var(--failed)}.flag.owner_changed{fill:var(--failed)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;padding:0;margin:.6rem 0;font-size:.83rem;
color:var(--soft)}
.swatch{display:inline-block;width:1.5rem;height:.7rem;border-radius:3px;margin-right:.4rem;vertical-align:baseline;
background:var(--pending)}
.swatch.call.done{background:var(--done)}.swatch.call.failed{background:var(--failed)}
.swatch.call.unknown-result{background:var(--unknown)}.swatch.person{background:var(--awaiting);opacity:.55}
.swatch.unknown{background:repeating-linear-gradient(135deg,var(--unknown) 0 2px,var(--unknownbg) 2px 6px)}
.swatch.cooldown{background:repeating-linear-gradient(135deg,var(--running) 0 1.5px,var(--runningbg) 1.5px 6px)}
.swatch.probe{background:var(--accent);opacity:.85}.swatch.backoff{background:var(--cancelled);opacity:.45}
.swatch.replan{background:var(--accent);opacity:.3}
.box{fill:var(--panel);stroke:var(--line);stroke-width:1.2}.side{fill:var(--pending)}
.box.failed{fill:var(--failedbg)}.box.unknown-result{fill:var(--unknownbg)}.box.awaiting-confirmation{fill:var(--awaitingbg)}
.side.done{fill:var(--done)}.side.failed{fill:var(--failed)}.side.running{fill:var(--running)}
.side.awaiting-confirmation{fill:var(--awaiting)}.side.unknown-result{fill:var(--unknown)}.side.cancelled{fill:var(--cancelled)}
svg .name{font-weight:600}svg .tool{fill:var(--soft);font-size:11px}
.edge{fill:none;stroke:var(--pending);stroke-width:1.4}.edge.optional{stroke-dasharray:4 4}.arrow{fill:var(--pending)}
.meters{display:grid;grid-template-columns:repeat(auto-fill,minmax(230px,1fr));gap:1rem}
figure{margin:0}figcaption{display:flex;justify-content:space-between;font-size:.88rem}figcaption span{color:var(--soft)}
.meter{width:100%;height:auto;background:var(--band);border-radius:6px}
.curve{fill:none;stroke:var(--accent);stroke-width:2}.limit{stroke:var(--failed);stroke-width:1.4;stroke-dasharray:5 4}
.amount.low{color:var(--unknown)}
.events details,.events p{margin:0;border-bottom:1px solid var(--line);padding:.16rem 0;font-size:.87rem}
.events summary{color:var(--ink)}.events time,.n{color:var(--soft);display:inline-block;min-width:4.6rem}.n{min-width:3.2rem}
footer{padding:1rem 1.4rem 3rem;color:var(--soft);font-size:.85rem}
@media(max-width:640px){body{font-size:14px}main,header,footer{padding-left:.8rem;padding-right:.8rem}
nav ul{padding-left:.8rem;padding-right:.8rem}section{padding:.9rem .85rem;border-radius:8px}h1{font-size:1.3rem}
.when{float:none;display:block}dl.identity{grid-template-columns:1fr;gap:0}dl.identity dd{margin-bottom:.5rem}
.facts{grid-template-columns:repeat(2,1fr)}}
@media print{:root{color-scheme:light;--bg:#fff;--panel:#fff;--ink:#000;--soft:#444;--line:#ccc;--band:#f5f5f5;
--accent:#1d4aa8;--done:#1a7f4b;--failed:#b02a20;--running:#2459c9;--awaiting:#7a48c6;--unknown:#a35d00;
--cancelled:#6c7784;--pending:#8a95a1;--donebg:#e3f4ea;--failedbg:#fbe7e5;--runningbg:#e5edfc;--awaitingbg:#f0e8fb;
--unknownbg:#fdf0dc;--plainbg:#f1f3f5}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}body{font-size:10.5pt}nav{display:none}
main,header,footer{max-width:none;padding-left:0;padding-right:0}
section{border:0;border-top:1px solid var(--line);border-radius:0;padding:.8rem 0;margin:.4rem 0}
article,tr,figure,.facts li{break-inside:avoid}h2,h3{break-after:avoid}.scroll{overflow:visible}.gantt{min-width:0}
.network{max-width:100%}pre{max-height:none}a{color:inherit}}
"""

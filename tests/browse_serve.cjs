// Uses the page of `weft serve` as a person would, and prints what was seen as JSON:
// node browse_serve.cjs ADDRESS RUN SOUND [SCREENSHOT_PREFIX]
const { chromium } = require("playwright-core");
const { mkdtempSync, readFileSync, rmSync } = require("fs");
const { tmpdir } = require("os");
const { join } = require("path");

const [address, run, sound, prefix] = process.argv.slice(2);
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"];

async function main() {
  const profile = mkdtempSync(join(tmpdir(), "weft-browse-"));
  const context = await chromium.launchPersistentContext(profile, { executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: FLAGS, viewport: { width: 1100, height: 900 }, permissions: ["clipboard-read", "clipboard-write", "microphone"], acceptDownloads: true });
  const seen = { errors: [], elsewhere: [], requests: 0 };
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(30000);
    page.on("console", (message) => { if (["error", "warning"].includes(message.type())) seen.errors.push(message.text()); });
    page.on("pageerror", (error) => seen.errors.push(String(error)));
    page.on("request", (request) => { if (!request.url().startsWith(address) && !/^(blob|data):/.test(request.url())) seen.elsewhere.push(request.url()); });
    page.on("request", (request) => { if (request.url().endsWith("/predict")) seen.requests += 1; });
    await use(page, seen);
    await look(page, seen);
    await inspection(page, seen);
    await kinds(page, seen);
    await sounds(page, seen);
    await documentation(page, seen);
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
  console.log(JSON.stringify(seen));
}

const answered = (page, text) => page.waitForFunction((wanted) => document.getElementById("outputs").getAttribute("aria-busy") === "false" && document.getElementById("status").textContent.startsWith(wanted), text);

// Write, read the outputs, hover and walk over their symbols, change the search, copy and download; by keyboard alone where that counts.
async function use(page, seen) {
  await page.goto(address);
  await page.selectOption("#run", run);
  await page.locator("#source").pressSequentially("abcd\nfeed", { delay: 20 });
  await answered(page, "2 inputs");
  seen.requests_while_typing = seen.requests;
  seen.best = await page.locator(".best").allTextContents();
  const token = page.locator(".best .token").first();
  await token.hover();
  seen.weights = await page.locator(".attended").first().locator(".token").evaluateAll((all) => all.map((each) => Number(each.style.getPropertyValue("--weight"))));
  seen.looked = await page.locator(".looked").first().textContent();
  await token.focus();
  await page.keyboard.press("ArrowRight");
  seen.focused = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  await page.locator("summary").first().click();
  seen.alternatives = await page.locator(".alternatives").first().locator("tr").count();
  await page.selectOption("#kind", "greedy");
  await answered(page, "2 inputs");
  seen.greedy = await page.locator(".alternatives").count();
  await page.selectOption("#kind", "beam");
  await page.fill("#width", "99");
  await page.waitForSelector("#problem:not([hidden])");
  seen.problem = await page.locator("#problem").innerText();
  await page.fill("#width", "");
  await answered(page, "2 inputs");
  seen.curl = await page.locator("#curl").textContent();
  seen.python = await page.locator("#python").textContent();
  await page.locator(".copy").first().click();
  seen.copied = await page.evaluate(() => navigator.clipboard.readText());
  const waiting = page.waitForEvent("download");
  await page.locator("#tsv").click();
  const file = join(tmpdir(), `weft-download-${process.pid}.tsv`);
  await (await waiting).saveAs(file);
  seen.downloaded = readFileSync(file, "utf8");
  rmSync(file);
  seen.labels = await page.evaluate(() => [...document.querySelectorAll("input, select, textarea")].filter((each) => !each.labels.length).map((each) => each.id));
  seen.headings = await page.locator("h1, h2").allTextContents();
}

// Right-to-left text, dark mode, a phone's width and large letters.
async function look(page, seen) {
  for (const [name, scheme, width] of [["light", "light", 1100], ["dark", "dark", 1100], ["phone", "light", 360]]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: 900 });
    seen[`overflow_${name}`] = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    seen[`ground_${name}`] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    if (prefix) await page.screenshot({ path: `${prefix}-${name}.png`, fullPage: true });
  }
  await page.setViewportSize({ width: 1100, height: 900 });
  await page.fill("#source", "שלום עולם");
  await answered(page, "1 input ");
  if (prefix) await page.screenshot({ path: `${prefix}-rtl.png`, fullPage: true });
  seen.direction = await page.evaluate(() => [getComputedStyle(document.getElementById("source")).direction, getComputedStyle(document.querySelector(".result .input")).direction]);
}

// The views of an input, in a frame below its outputs; then with a change.
async function inspection(page, seen) {
  await page.fill("#source", "abcd");
  await answered(page, "1 input ");
  await page.locator(".inside").first().click();
  const frame = page.frameLocator(".inspection iframe");
  await frame.locator("#line-attention").waitFor();
  seen.views = await frame.locator("section.view h2").allTextContents();
  seen.expanded = await page.locator(".inside").first().getAttribute("aria-expanded");
  await page.fill("[name=what_if]", "input:1=d");
  await page.locator(".inspection button[type=submit]").click();
  await frame.locator("#line-what-if").waitFor();
  if (prefix) await page.screenshot({ path: `${prefix}-inside.png`, fullPage: true });
  const waiting = page.waitForEvent("download");
  await page.getByText("Download the report").click();
  seen.report = (await waiting).suggestedFilename();
}

// Runs of other kinds: their own fields, and outputs that are drawn.
async function kinds(page, seen) {
  await page.selectOption("#run", "answers");
  await page.fill("#source", "Ann lives in Rome.\nBob lives in Oslo.");
  await page.fill("#context", "Where does Ann live?\nWhere does Bob live?");
  await answered(page, "2 inputs");
  seen.questions = await page.locator(".result .input").allTextContents();
  seen.marked = await page.locator(".result mark").count();
  if (prefix) await page.screenshot({ path: `${prefix}-answers.png`, fullPage: true });
  await page.selectOption("#run", "tunes");
  await page.fill("#source", "[[60, 48], [62]]");
  await answered(page, "1 input ");
  seen.rolls = await page.locator(".drawn .note").count();
  if (prefix) await page.screenshot({ path: `${prefix}-notes.png`, fullPage: true });
  await page.selectOption("#run", "numbers");
  await page.fill("#source", "[0.5, 1.0, 1.0]");
  await page.fill("#context", "[0.1, 1.0]");
  await answered(page, "1 input ");
  seen.numbers = await page.locator(".best").first().innerText();
  seen.lines = await page.locator(".drawn .series").count();
  await page.fill("#source", "[0.5, 1.0, 1.0]\n[0.5, 1.0, 1.0]\n[1, 2]");
  await page.fill("#context", "[0.1, 1.0]\n[1, 1]");
  await page.waitForSelector("#problem:not([hidden]):has-text('give one')");
  seen.uneven = await page.locator("#problem").innerText();
  await page.selectOption("#run", "prompts");
  await page.fill("#source", "abc\nb");
  await answered(page, "1 input ");
  seen.prompt = JSON.parse((await page.locator("#curl").textContent()).split("-d '")[1].slice(0, -1)).inputs;
}

// Files: chosen and sent as a form; recorded.
async function sounds(page, seen) {
  await page.selectOption("#run", "sounds");
  seen.accepted = await page.locator("#source-files").getAttribute("accept");
  seen.areas = await page.locator("#inputs textarea").count();
  await page.setInputFiles("#source-files", sound);
  await answered(page, "1 input ");
  seen.uploaded = [await page.locator("#status").textContent(), await page.locator("#curl").textContent(), await page.locator("#python").textContent()];
  await page.click("#source-record");
  await page.waitForFunction(() => document.getElementById("source-record").getAttribute("aria-pressed") === "true");
  await page.waitForTimeout(300);
  await page.click("#source-record");
  await answered(page, "2 inputs");
  seen.recorded = await page.locator("#source-chosen li").allInnerTexts();
  if (prefix) await page.screenshot({ path: `${prefix}-sounds.png`, fullPage: true });
  await page.click("#source-clear");
  seen.cleared = await page.locator("#source-chosen li").count();
}

async function documentation(page, seen) {
  await page.goto(`${address}/docs`);
  await page.waitForSelector("#routes h2");
  seen.routes = await page.locator("#routes h2").allTextContents();
}

main().catch((error) => { console.error(error); process.exit(1); });

// Recording from the microphone, as a WAV file.

const RATE = 16000; // samples a second

// Lets a button start and end recordings; false where the browser cannot record.
export function recorder(button, count, take, tell) {
  if (!navigator.mediaDevices || !window.MediaRecorder) return false;
  let running = null;
  const state = (text, pressed) => {
    button.textContent = text;
    button.setAttribute("aria-pressed", String(pressed));
  };
  const end = async (stream, pieces) => {
    for (const track of stream.getTracks()) track.stop();
    running = null;
    state("Record", false);
    const wave = await asWave(new Blob(pieces));
    take(new File([wave], `recording-${count() + 1}.wav`, { type: "audio/wav" }));
  };
  button.addEventListener("click", async () => {
    if (running) {
      running.stop();
      return;
    }
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      const pieces = [];
      running = new MediaRecorder(stream);
      running.addEventListener("dataavailable", (event) => pieces.push(event.data));
      running.addEventListener("stop", () => end(stream, pieces));
      running.start();
      state("Stop recording", true);
    } catch (error) {
      tell(`The microphone cannot be used: ${error.message}`);
    }
  });
  return true;
}

// A recording, in whatever format the browser has, as a WAV file of one channel.
async function asWave(blob) {
  const decoded = await new AudioContext().decodeAudioData(await blob.arrayBuffer());
  const offline = new OfflineAudioContext(1, Math.max(1, Math.ceil(decoded.duration * RATE)), RATE);
  const node = new AudioBufferSourceNode(offline, { buffer: decoded });
  node.connect(offline.destination);
  node.start();
  const samples = (await offline.startRendering()).getChannelData(0);
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, letters) => [...letters].forEach((letter, n) => view.setUint8(at + n, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // whole numbers
  view.setUint16(22, 1, true); // one channel
  view.setUint32(24, RATE, true);
  view.setUint32(28, 2 * RATE, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, n) => view.setInt16(44 + 2 * n, 32767 * Math.max(-1, Math.min(1, sample)), true));
  return view.buffer;
}

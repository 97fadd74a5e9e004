import { gaze } from "../gaze.shared/shared.js";

export default function () { gaze.address(); }
// Runs when the link changes, after the change itself: the server sends it last.

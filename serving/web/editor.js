// The source editor: CodeMirror with C++ or Python, each line's share of the time beside its number, and the compiler's messages.

import {
  Compartment, Decoration, EditorState, EditorView, GutterMarker, HighlightStyle, RangeSet, StateEffect, StateField, basicSetup, cpp,
  gutter, indentUnit, indentWithTab, keymap, placeholder, python, setDiagnostics, syntaxHighlighting, tags,
} from "./codemirror.js";
import { isScript } from "./language.js";

const LEAST_SHARE = 0.005; // of the time, to be shown
const mono = 'ui-monospace, "DejaVu Sans Mono", monospace';
const heat = (strength) => ({ backgroundColor: `rgba(var(--heat), ${strength})`, color: "var(--ink)" });

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--field)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: mono, fontSize: "13px", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--field)", color: "var(--quiet)", borderRight: "1px solid var(--edge)" },
  ".cm-activeLine": { backgroundColor: "var(--line)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--line)", color: "var(--ink)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { background: "var(--selection)" },
  ".cm-selectionMatch, .cm-searchMatch": { backgroundColor: "var(--selection)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "1px solid var(--edge)" },
  ".cm-placeholder": { color: "var(--quiet)" },
  ".cm-foldPlaceholder": { background: "none", color: "var(--quiet)", borderColor: "var(--edge)" },
  ".cm-panels, .cm-tooltip": { backgroundColor: "var(--paper)", color: "var(--ink)", borderColor: "var(--edge)" },
  ".cm-textfield, .cm-button": { background: "var(--field)", color: "var(--ink)", borderColor: "var(--edge)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textDecorationSkipInk: "none" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-share .cm-gutterElement": { padding: "0 .3rem", minWidth: "2.9rem", textAlign: "right" },
  ".cm-marked": { backgroundColor: "rgba(var(--heat), .2)" },
  ".cm-heat-1": heat(0.12), ".cm-heat-2": heat(0.26), ".cm-heat-3": heat(0.42), ".cm-heat-4": heat(0.6),
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword, tags.controlKeyword], color: "var(--keyword)" },
  { tag: [tags.string, tags.character], color: "var(--string)" },
  { tag: [tags.comment], color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--number)" },
  { tag: [tags.typeName, tags.standard(tags.typeName)], color: "var(--type)" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], color: "var(--function)" },
  { tag: [tags.processingInstruction, tags.meta], color: "var(--keyword)" },
]);

class ShareMarker extends GutterMarker {
  constructor(share) {
    super();
    this.share = share;
    this.elementClass = `cm-heat-${share < 0.05 ? 1 : share < 0.15 ? 2 : share < 0.4 ? 3 : 4}`;
  }

  eq(other) { return this.share === other.share; }
  toDOM() { return document.createTextNode(`${Math.round(100 * this.share)} %`); }
}

/** A set of ranges that an effect replaces, and that moves with the text. */
function ranges(effect, provide) {
  return StateField.define({
    create: () => RangeSet.empty,
    update(set, transaction) {
      for (const found of transaction.effects) if (found.is(effect)) return found.value;
      return set.map(transaction.changes);
    },
    provide,
  });
}

const grammar = new Compartment();
const setShares = StateEffect.define(), setMarked = StateEffect.define();
const shares = ranges(setShares, (field) => gutter({ class: "cm-share", markers: (view) => view.state.field(field) }));
const marked = ranges(setMarked, (field) => EditorView.decorations.from(field));

export class Editor {
  /** Fills `host`. `changed` hears of each change of the text, `moved` of the cursor's line. */
  constructor(host, changed, moved) {
    // CodeMirror adds its styles to a shadow root without <style> elements, which the page's policy forbids.
    const root = host.attachShadow({ mode: "open" });
    host.editor = this;
    this.line = 1;
    this.script = false;
    this.view = new EditorView({
      parent: root, root,
      extensions: [
        shares, marked, basicSetup, grammar.of(cpp()), keymap.of([indentWithTab]), indentUnit.of("  "), theme, syntaxHighlighting(colours),
        placeholder("Paste a HIP kernel or a Triton script, open a file, or choose an example"),
        EditorState.tabSize.of(2),
        EditorView.contentAttributes.of(() => ({ "aria-label": this.label ?? "Source", tabindex: "0" })),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) {
            this.#follow();
            changed();
          }
          const { number } = update.state.doc.lineAt(update.state.selection.main.head);
          if (number !== this.line && update.selectionSet) moved(this.line = number);
        }),
      ],
    });
  }

  get text() { return this.view.state.doc.toString(); }
  get focused() { return this.view.hasFocus; }
  focus() { this.view.focus(); }

  /** Replaces the text in one step that can be undone. */
  set text(text) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  /** Takes the grammar of the text's language. */
  #follow() {
    const script = isScript(this.text);
    if (script === this.script) return;
    this.script = script;
    const effects = grammar.reconfigure(script ? python() : cpp());
    queueMicrotask(() => this.view.dispatch({ effects })); // not while the view takes another change
  }

  name(label) {
    this.label = label;
    this.view.dispatch({});
  }

  #line(number) { return this.view.state.doc.line(Math.min(Math.max(number, 1), this.view.state.doc.lines)); }

  /** Line number -> share of the time. */
  setShares(costs) {
    const known = [...costs].filter(([line, share]) => share >= LEAST_SHARE && line >= 1 && line <= this.view.state.doc.lines);
    const found = known.sort(([a], [b]) => a - b).map(([line, share]) => new ShareMarker(share).range(this.#line(line).from));
    this.view.dispatch({ effects: setShares.of(RangeSet.of(found)) });
  }

  /** Marks a line and shows it; 0 marks none. */
  mark(number) {
    const line = number && this.#line(number);
    const found = line ? [Decoration.line({ class: "cm-marked" }).range(line.from)] : [];
    const effects = [setMarked.of(RangeSet.of(found)), ...(line ? [EditorView.scrollIntoView(line.from, { y: "nearest" })] : [])];
    this.view.dispatch({ effects });
  }

  /** Underlines what the compiler complains of: {line, column, message}, from 1; column 0 is the whole line. */
  setProblems(problems) {
    const found = problems.map(({ line: number, column, message }) => {
      const line = this.#line(number);
      const from = column ? Math.min(line.from + column - 1, line.to) : line.from + line.text.search(/\S|$/);
      const word = column ? /^(\w+|.)?/.exec(line.text.slice(from - line.from))[0] : line.text.trimStart();
      return { from, to: Math.min(from + Math.max(word.length, 1), line.to), severity: "error", message };
    });
    this.view.dispatch(setDiagnostics(this.view.state, found));
  }
}

/** The places in what clang printed ("kernel.hip:5:3: error: ..."), in a note ("the compiler, line 5: ..."), and in what Python
 * printed: the last line that it names of the script. */
export function readProblems(text) {
  const found = [];
  const rows = text.split("\n");
  const named = [...text.matchAll(/File "(?:[^"]*\/)?kernel\.py", line (\d+)/g)].at(-1);
  if (named) found.push({ line: Number(named[1]), column: 0, message: rows.findLast((row) => /^\s*\w*(?:Error|Exception)\b/.test(row))?.trim() ?? "" });
  for (const row of rows) {
    const printed = /:(\d+):(\d+): (?:fatal )?error: (.*)/.exec(row);
    const told = /line (\d+)(?:, column (\d+))?: (.*)/.exec(row);
    const [, line, column, message] = printed ?? told ?? [];
    if (line) found.push({ line: Number(line), column: Number(column ?? 0), message });
  }
  return found;
}

// What the workbench uses of CodeMirror; everything else is left out of the bundle.
export { indentWithTab } from "@codemirror/commands";
export { cpp } from "@codemirror/lang-cpp";
export { python } from "@codemirror/lang-python";
export { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
export { setDiagnostics } from "@codemirror/lint";
export { Compartment, EditorState, Prec, RangeSet, StateEffect, StateField } from "@codemirror/state";
export { Decoration, EditorView, GutterMarker, gutter, keymap, placeholder } from "@codemirror/view";
export { tags } from "@lezer/highlight";
export { basicSetup } from "codemirror";

/* How the search orders what it finds: as Sphinx does, but a heading that contains what was searched for comes first. */
var Scorer = {
  score: ([page, title, anchor, description, score]) => (title.includes(" > ") ? score + 20 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

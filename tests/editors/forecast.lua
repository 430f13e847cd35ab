-- What a user of Neovim does to forecast a function: the lens above it, then what the lens and the lines say.
-- The environment's EXPECTED is what the command line says of it: what the lens shows, and what stands behind the line.

local steps = dofile(vim.env.STEPS)
local lens_says, line_says = unpack(vim.split(vim.env.EXPECTED, "|", { plain = true }))

local function hints()
  local whole = { start = { line = 0, character = 0 }, ["end"] = { line = vim.fn.line("$"), character = 0 } }
  local asked = { textDocument = vim.lsp.util.make_text_document_params(0), range = whole }
  local labels = {}
  for _, answer in pairs(vim.lsp.buf_request_sync(0, "textDocument/inlayHint", asked, 10000) or {}) do
    for _, hint in ipairs(answer.result or {}) do
      table.insert(labels, hint.label)
    end
  end
  return labels
end

steps.play(function()
  steps.wait_for_server()
  steps.wait_for_lenses("an offer to forecast", "▶ Forecast")
  steps.go_to_lens("▶ Forecast")
  steps.will_choose("▶ Forecast")
  vim.lsp.codelens.run()
  steps.wait_for_lenses("the forecast that the command line makes", lens_says)
  assert(vim.tbl_contains(hints(), line_says), vim.inspect(hints()))
  steps.tell("what the line holds")
end)

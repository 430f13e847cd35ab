-- What a user of Neovim does to run a function: the lens above it, then the fault that the run has seen.

local steps = dofile(vim.env.STEPS)
local FAULT = "5 is outside [0, 5)"

steps.play(function()
  steps.wait_for_server()
  steps.wait_for_lenses("an offer to run", "▶ Dry-run")
  steps.go_to_lens("▶ Dry-run")
  if vim.fn.maparg("\\dr", "n") ~= "" then
    vim.api.nvim_feedkeys("\\dr", "mx", false) -- the key of the page's configuration
  else
    steps.will_choose("▶ Dry-run")
    vim.lsp.codelens.run()
  end
  steps.wait_until("the fault", function() return steps.finding(FAULT) end)
  assert(steps.finding(FAULT).source == "drygrad")
  steps.wait_for_lenses("the result", "● pinned", "✗ ")

  local lines = vim.api.nvim_buf_get_lines(0, 0, -1, true)
  for number, line in ipairs(lines) do
    lines[number] = line:gsub("5, 2%]", "4, 2]")
  end
  vim.api.nvim_buf_set_lines(0, 0, -1, true, lines)
  vim.cmd("silent write")
  steps.wait_for_lenses("the pinned function passes when its input is mended", "✓ passed")
  assert(not steps.finding(FAULT))
end)
